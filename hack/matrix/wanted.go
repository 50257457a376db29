package main

import (
	"fmt"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// wanted is a figure that the steps of a list have to measure.
type wanted struct {
	name string
	// target is what its value should be; nil where any value will do.
	target *target
}

// target is what the value of a figure should be.
type target struct {
	is    bound
	value float64
	// shown is true where a miss is only shown, and does not fail the run: for times, ratios and sizes, and for what docs say may be missed.
	shown bool
}

type bound string

const (
	isExactly bound = "exactly"
	isAtLeast bound = "at least"
	isAtMost  bound = "at most"
)

func (t *target) missedBy(value float64) bool {
	switch t.is {
	case isAtLeast:
		return value < t.value
	case isAtMost:
		return value > t.value
	default:
		return value != t.value
	}
}

// anything wants figures to be measured, whatever their value.
func anything(names ...string) []wanted { return want(nil, names) }

func exactly(value float64, names ...string) []wanted {
	return want(&target{is: isExactly, value: value}, names)
}

func atLeast(value float64, names ...string) []wanted {
	return want(&target{is: isAtLeast, value: value}, names)
}

func atMost(value float64, names ...string) []wanted {
	return want(&target{is: isAtMost, value: value}, names)
}

// shown has misses shown, and fail no run.
func shown(all []wanted) []wanted {
	for _, w := range all {
		w.target.shown = true
	}
	return all
}

func want(t *target, names []string) []wanted {
	var all []wanted
	for _, name := range names {
		all = append(all, wanted{name, t})
	}
	return all
}

// judge gives a row for each figure that has to be there and is not, and for each value that is not as wanted. Of figures that can be
// added their sum counts.
func judge(all []wanted, measured []figures.Figure) ([]row, error) {
	var rows []row
	for _, w := range all {
		var found []figures.Figure
		for _, f := range measured {
			if f.Name == w.name {
				found = append(found, f)
			}
		}
		if len(found) == 0 {
			rows = append(rows, row{Name: "figure " + w.name, Outcome: notRun, Note: "no step measured it"})
		}
		if w.target == nil {
			continue
		}
		if canBeAdded(w.name) && len(found) > 1 {
			found = found[len(found)-1:]
		}
		for _, f := range found {
			value, err := f.Value.Float64()
			if err != nil {
				return nil, fmt.Errorf("judge %s: %w", w.name, err)
			}
			if w.target.missedBy(value) {
				rows = append(rows, w.target.miss(f))
			}
		}
	}
	return rows, nil
}

// miss is the row of a figure that misses its target.
func (t *target) miss(f figures.Figure) row {
	r := row{Name: "figure " + f.Name, Outcome: failedOutcome, Note: fmt.Sprintf("is %s, wanted %s %g", f.Value, t.is, t.value)}
	if t.shown {
		r.Outcome = missed
	}
	if f.Scenario != "" {
		r.Note += ": " + f.Scenario
	}
	return r
}

var (
	upgradeFigures = slices.Concat(
		anything("upgrade_seconds", "upgrade_raw_429", "upgrade_raw_5xx", "upgrade_raw_broken", "scale_raw_429", "scale_raw_5xx", "scale_raw_broken"),
		exactly(0, "upgrade_failed_requests", "upgrade_lost_writes", "scale_failed_requests", "scale_lost_writes", "provider_upgrade_pod_restarts"),
		anything("capi_specs_passed", "contract_rules_tested", "conformance_passed"), exactly(0, "conformance_failed"),
	)
	moveFigures = exactly(0, "move_failed_requests", "move_lost_writes", "move_pod_restarts", "move_settled_writes", "moved_old_credentials_accepted_after", "moved_rotation_lost_writes")
	hostFigures = slices.Concat(
		exactly(float64(len(artifacts.HostVersions())), "host_clusters_tested"),
		anything("host_upgrade_seconds", "host_upgrade_elections", "host_upgrade_lead_moves", "host_upgrade_requests_timed_out", "host_upgrade_requests_dropped"),
		shown(exactly(0, "host_upgrade_failed_requests")), exactly(0, "host_upgrade_lost_writes"),
	)
	securityFigures = slices.Concat(
		atLeast(30, "attack_tries"), exactly(0, "attack_succeeded", "attack_manager_restarts"),
		shown(atMost(2, "attack_neighbour_latency_ratio", "attack_neighbour_p99_ratio", "attack_neighbour_window_ratio")), shown(atMost(3, "neighbour_p99_ratio")),
		anything("namespace_attack_tries", "attack_objects", "attack_capi_manager_restarts"), exactly(0, "namespace_attack_succeeded"),
		atLeast(8, "fuzz_targets"), exactly(0, "findings_open"),
	)
	faultFigures = slices.Concat(
		atLeast(18, "faults_total"), anything("faults_passed", "recovery_seconds_member"), exactly(0, "faults_lost_writes", "faults_not_linearizable"),
	)
	backupFigures = slices.Concat(
		anything("recovery_seconds_restore", "recovery_seconds_in_place", "recovery_seconds_quorum", "recovery_seconds_quorum_alone",
			"recovery_seconds_all_wiped", "recovery_seconds_all_wiped_alone", "recovery_seconds_events", "recovery_seconds_events_alone",
			"recovery_seconds_per_member", "recovery_seconds_claim",
			"recovery_point_writes", "recovery_point_writes_alone", "recovery_point_writes_survivor", "recovery_point_writes_survivor_alone",
			"recovery_point_writes_in_place", "recovery_point_writes_in_place_again", "recovery_point_writes_per_member"),
		exactly(0, "restore_objects_different", "in_place_objects_different", "in_place_again_objects_different", "drill_objects_different",
			"page_in_place_objects_different", "page_restored_objects_different", "claim_objects_different"),
		exactly(0, "restored_lost_writes", "events_wiped_lost_writes", "events_wiped_alone_lost_writes"),
		exactly(0, "defrag_failed_requests"), exactly(1, "backup_goes_on_while_cut"),
	)
	formerDataFigures = slices.Concat(
		anything("recovery_seconds_former_back", "recovery_seconds_host_off", "recovery_seconds_cut_off"),
		exactly(0, "former_back_objects_different", "host_off_objects_different", "cut_off_objects_different", "cut_off_lost_writes"),
	)
	softwareFigures = exactly(0, "software_upgrade_failed_requests", "software_upgrade_lost_writes")
	kubeadmFigures  = exactly(0, "kubeadm_old_credentials_accepted_after")
	// docs/keys.md and docs/upgrading.md say which requests fail when the lead of etcd moves.
	keyFigures = slices.Concat(
		anything("rotation_seconds", "rotation_of_five_seconds", "ca_rotation_seconds", "rotation_of_all_elections"),
		anything("rotation_requests_timed_out", "rotation_requests_dropped", "rotation_of_all_requests_timed_out", "rotation_of_all_requests_dropped",
			"rendering_rollout_requests_timed_out", "rendering_rollout_requests_dropped"),
		shown(exactly(0, "rotation_failed_requests", "rotation_of_all_failed_requests", "rendering_rollout_failed_requests")),
		exactly(0, "ca_prepare_failed_requests", "ca_complete_failed_requests", "rendering_taken_back_failed_requests"),
		exactly(0, "rotation_lost_writes", "rotation_of_all_lost_writes", "ca_prepare_lost_writes", "ca_complete_lost_writes",
			"rendering_rollout_lost_writes", "rendering_taken_back_lost_writes"),
		shown(exactly(0, "rotation_not_ready_seconds", "rotation_of_all_not_ready_seconds", "ca_rotation_not_ready_seconds")),
		atMost(1, "rotation_pods_missing_at_once", "rotation_of_all_pods_missing_at_once", "ca_rotation_pods_missing_at_once"),
		atLeast(8, "old_credentials_tried"), anything("ca_old_credentials_tried"),
		exactly(0, "old_credentials_accepted_after", "ca_old_credentials_accepted_after", "agents_old_credentials_accepted_after"),
		exactly(0, "undo_failed_requests"), exactly(1, "renderings_taken_back_equal"),
		anything("recovery_seconds_rotated"), exactly(0, "rotated_objects_different"),
	)
	// benchFigures have the targets of docs/performance.md. Times, ratios and sizes differ by machine, so their misses are shown and fail nothing.
	benchFigures = slices.Concat(
		shown(slices.Concat(
			atMost(1.5, "create_ratio"), atMost(1.7, "create_single_ratio"), atMost(45, "create_10_seconds"),
			atMost(5, "delete_seconds"), atMost(15, "delete_10_seconds"), exactly(0, "create_slow_mounts"),
			atMost(30, "upgrade_seconds"), atMost(7, "join_seconds"), atMost(18, "join_5_seconds"),
			atMost(400, "tenant_single_mib"), atMost(300, "tenant_single_pss_mib"), atMost(0.06, "tenant_single_idle_cores"),
			atMost(1.1, "lb_cpu_ratio_haproxy"), atMost(1, "lb_p50_ratio_haproxy"), atLeast(1, "lb_rps_ratio_haproxy"),
			atMost(15, "lb_mib_1000_watches"), atMost(2, "lb_descriptors_per_connection"),
			atMost(360, "manager_1000_seconds"), atMost(1, "manager_mib_per_tenant"), atMost(1.2, "manager_cost_ratio_1000"),
			atMost(45, "manager_restart_idle_seconds"), atMost(2, "manager_edit_seconds"), atMost(0.05, "manager_idle_cores"),
		)),
		anything("tenant_ha_mib", "tenant_small_mib"),
		exactly(0, "create_restarts", "upgrade_failed_requests", "upgrade_lost_writes"), scaleFigures,
	)
	scaleFigures = exactly(0, "manager_restart_writes", "manager_idle_writes", "bootstrap_restart_writes", "bootstrap_idle_writes")
	houseFigures = slices.Concat(
		anything("product_lines", "test_lines", "breaks_total", "breaks_caught"),
		exactly(0, "packages_over_2000_lines", "provider_upgrade_pod_restarts"), shown(atMost(3, "component_places")),
	)
	installFigures = slices.Concat(
		exactly(1, "release_reproducible"), atMost(25, "install_commands"), exactly(0, "install_failed_commands"),
		atLeast(2, "software_distributions"), exactly(0, "topology_upgrade_failed_requests"), softwareFigures,
		hostFigures, exactly(0, "foreign_hosts_changed"), anything("join_5_seconds", "join_5_software_seconds"),
	)
)
