package metrics

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// ofTenant is a metric of single tenants: it has the labels of Cluster API's own, further ones, and no series for each pod.
func ofTenant(name, help string, further ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"cluster_namespace", "cluster_name"}, further...))
}

// ofEtcd is a metric of each etcd of a tenant.
func ofEtcd(name, help string, further ...string) *prometheus.GaugeVec {
	return ofTenant(name, help, append([]string{"etcd"}, further...)...)
}

var (
	databaseBytes      = ofEtcd("kok_etcd_database_bytes", "Size of the largest database among the members of an etcd cluster, when it last answered.")
	databaseQuotaBytes = ofEtcd("kok_etcd_database_quota_bytes", "Size at which an etcd cluster takes no more writes.")
	databaseInUseBytes = ofEtcd("kok_etcd_database_in_use_bytes", "What is no free page of the largest database among the members of an etcd cluster, when it last answered.")
	hasLeader          = ofEtcd("kok_etcd_has_leader", "1 while a member of an etcd cluster leads, 0 while none of those that answer does.")
	members            = ofEtcd("kok_etcd_members", "Members of an etcd cluster, by their state: healthy, learner or failing.", "state")
	memberLag          = ofEtcd("kok_etcd_member_lag_entries", "Entries of the log that the slowest member of an etcd cluster has yet to apply, of those that its leader knows.")
	needsDecision      = ofEtcd("kok_etcd_needs_decision", "1 while an etcd cluster waits for a person, as the condition EtcdRecovering with the reason NeedsDecision says, else 0.")
	certificatesEnd    = ofTenant("kok_certificates_end_timestamp_seconds", "When the first certificate of a tenant ends, as a Unix time.")
	newestSnapshot     = ofTenant("kok_etcd_newest_snapshot_timestamp_seconds", "When the newest verified snapshot of a tenant's data etcd was taken, as a Unix time. Without one it is when the control plane was created.")
	snapshotInterval   = ofTenant("kok_etcd_snapshot_interval_seconds", "Time between two snapshots of a tenant's data etcd, as spec.etcd.backup.every wants it.")
	keyRotations       = ofTenant("kok_key_rotation_phase", "1 for the phase in which a kind of key of a tenant rotates. There is no series of a kind that does not rotate.", "kind", "phase")
	upgradesWaiting    = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kok_upgrades_waiting",
		Help: "Upgrades of control planes that wait, by what they wait for.",
	}, []string{"reason"})
)

// ofTenants are the metrics of single tenants.
var ofTenants = []*prometheus.GaugeVec{
	databaseBytes, databaseInUseBytes, databaseQuotaBytes, hasLeader, members, memberLag, needsDecision, certificatesEnd, newestSnapshot,
	snapshotInterval, keyRotations,
}

// States of members.
const (
	memberHealthy = "healthy"
	memberLearner = "learner"
	memberFailing = "failing"
)

// What upgrades wait for.
const (
	waitsForKubelets = "kubelets"
	waitsForVersion  = "version"
	waitsForPatches  = "patches"
	waitsForMembers  = "etcd-members"
	waitsForPerson   = "failure"
)

var waitingReasons = []string{waitsForKubelets, waitsForVersion, waitsForPatches, waitsForMembers, waitsForPerson}

func init() {
	ctrlmetrics.Registry.MustRegister(upgradesWaiting)
	for _, vector := range ofTenants {
		ctrlmetrics.Registry.MustRegister(vector)
	}
	for _, reason := range waitingReasons {
		upgradesWaiting.WithLabelValues(reason)
	}
}

// Figures are what is known of each control plane for metrics that are of single tenants, or count some.
type Figures struct {
	lock sync.Mutex
	of   map[client.ObjectKey]tenantFigures
}

type tenantFigures struct {
	// cluster is the Cluster that series are named after.
	cluster client.ObjectKey
	// waits is what an upgrade waits for; empty for none that waits.
	waits string
	// rotating has the phase of each kind of key that rotates.
	rotating map[controlplanev1.KeyKind]rotation.Phase
}

// Record keeps what a reconcile knows. What it does not know, such as the database of an etcd that does not answer, stays.
// end is when the first certificate ends; zero when the reconcile does not know.
func (f *Figures) Record(in *status.Input, seen *status.Observation, end time.Time) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.of == nil {
		f.of = map[client.ObjectKey]tenantFigures{}
	}
	key := client.ObjectKeyFromObject(in.ControlPlane)
	before, now := f.of[key], tenantFigures{cluster: in.Cluster, waits: upgradeWaits(in)}
	f.count(before.waits, now.waits)
	if now.rotating = before.rotating; in.KnowsKeys() {
		now.rotating = rotating(in)
		recordRotations(in.Cluster, before.rotating, now.rotating)
	}
	f.of[key] = now
	for _, component := range etcdcomponent.Components() {
		labels := []string{in.Cluster.Namespace, in.Cluster.Name, etcdclusters.Name(component)}
		operator.Recoveries.WithLabelValues(labels...) // Prometheus sees no increase in a series that begins with 1.
		recordMembers(seen.Health(component), labels)
		recordDecision(in.Restoring[component] != "", seen.Etcd[component], labels)
		if size, inUse, quota := databaseOf(seen.Health(component)); size > 0 {
			databaseBytes.WithLabelValues(labels...).Set(float64(size))
			databaseInUseBytes.WithLabelValues(labels...).Set(float64(inUse))
			wanted := int64(0)
			if spec := etcdclusters.Spec(in.ControlPlane, component).QuotaBackendSize; spec != nil {
				wanted = spec.Value()
			}
			databaseQuotaBytes.WithLabelValues(labels...).Set(float64(cmp.Or(quota, wanted)))
		}
	}
	recordSnapshot(in)
	if !end.IsZero() {
		certificatesEnd.WithLabelValues(in.Cluster.Namespace, in.Cluster.Name).Set(float64(end.Unix()))
	}
}

// recordDecision keeps whether an etcd cluster waits for a person. An etcd cluster that is founded anew does not wait. Where the reconcile
// could not look at it, the series keeps its value.
func recordDecision(foundedAnew bool, report *operator.Report, labels []string) {
	switch waits := needsDecision.WithLabelValues(labels...); {
	case foundedAnew:
		waits.Set(0)
	case report == nil || report.FactsMissing || report.Recovery == "" && !report.Answered():
	case report.NeedsDecision:
		waits.Set(1)
	default:
		waits.Set(0)
	}
}

// recordSnapshot sets two metrics: the time of the newest snapshot, and the interval that the spec asks for. A control plane without a snapshot
// has the time of its own creation there. So the alert on old snapshots also fires for a control plane that never had one.
func recordSnapshot(in *status.Input) {
	backup := in.ControlPlane.Spec.Etcd.Backup
	if backup == nil {
		newestSnapshot.DeleteLabelValues(in.Cluster.Namespace, in.Cluster.Name)
		snapshotInterval.DeleteLabelValues(in.Cluster.Namespace, in.Cluster.Name)
		return
	}
	snapshotInterval.WithLabelValues(in.Cluster.Namespace, in.Cluster.Name).Set(backups.Every(backup).Seconds())
	taken := in.ControlPlane.CreationTimestamp
	if newest := in.ControlPlane.Status.NewestSnapshot; newest != nil {
		taken = newest.TakenAt
	}
	newestSnapshot.WithLabelValues(in.Cluster.Namespace, in.Cluster.Name).Set(float64(taken.Unix()))
}

// Forget takes back what was said of a control plane that is gone.
func (f *Figures) Forget(controlPlane client.ObjectKey) {
	f.lock.Lock()
	defer f.lock.Unlock()
	known, ok := f.of[controlPlane]
	if !ok {
		return
	}
	f.count(known.waits, "")
	delete(f.of, controlPlane)
	labels := prometheus.Labels{"cluster_namespace": known.cluster.Namespace, "cluster_name": known.cluster.Name}
	for _, vector := range ofTenants {
		vector.DeletePartialMatch(labels)
	}
	operator.Recoveries.DeletePartialMatch(labels)
}

// count moves one upgrade from what it waited for to what it waits for now.
func (f *Figures) count(before, now string) {
	if before == now {
		return
	}
	if before != "" {
		upgradesWaiting.WithLabelValues(before).Dec()
	}
	if now != "" {
		upgradesWaiting.WithLabelValues(now).Inc()
	}
}

// rotating has the phase of each kind of key that rotates.
func rotating(in *status.Input) map[controlplanev1.KeyKind]rotation.Phase {
	phases := map[controlplanev1.KeyKind]rotation.Phase{}
	for _, r := range in.Rotations {
		if r.Record.UnderWay() {
			phases[r.Asked] = r.Record.Phase
		}
	}
	return phases
}

// recordRotations keeps a series for each present phase, and deletes the series of former phases. While a phase lasts it never removes its
// series, because alerts measure how long the phase lasts.
func recordRotations(cluster client.ObjectKey, before, now map[controlplanev1.KeyKind]rotation.Phase) {
	for kind, phase := range now {
		keyRotations.WithLabelValues(cluster.Namespace, cluster.Name, string(kind), string(phase)).Set(1)
	}
	for kind, phase := range before {
		if now[kind] != phase {
			keyRotations.DeleteLabelValues(cluster.Namespace, cluster.Name, string(kind), string(phase))
		}
	}
}

// recordMembers keeps what an etcd cluster says of its members. One of which nothing answers, maybe for want of a way there,
// stays as it was.
func recordMembers(health *etcd.Health, labels []string) {
	if health == nil || !health.Answered() {
		return
	}
	leaders, lag := 0, uint64(0)
	states := map[string]int{memberHealthy: 0, memberLearner: 0, memberFailing: 0}
	for _, member := range health.Members {
		switch {
		case member.Err != nil || !member.Listed:
			states[memberFailing]++
		case member.Learner:
			states[memberLearner]++
		default:
			states[memberHealthy]++
		}
		if member.Leader {
			leaders = 1
		}
		if member.Answered {
			lag = max(lag, health.Behind(member))
		}
	}
	hasLeader.WithLabelValues(labels...).Set(float64(leaders))
	memberLag.WithLabelValues(labels...).Set(float64(lag))
	for state, count := range states {
		members.WithLabelValues(append(slices.Clone(labels), state)...).Set(float64(count))
	}
}

// databaseOf is the size of the largest database among members, what is in use of it, and the smallest quota; zero when none said it.
func databaseOf(health *etcd.Health) (size, inUse, quota int64) {
	if health == nil {
		return 0, 0, 0
	}
	for _, member := range health.Members {
		if member.DatabaseSize > size {
			size, inUse = member.DatabaseSize, member.DatabaseInUse
		}
		if member.DatabaseQuota > 0 && (quota == 0 || member.DatabaseQuota < quota) {
			quota = member.DatabaseQuota
		}
	}
	return size, inUse, quota
}

// upgradeWaits is what an upgrade waits for beside its own rollout; empty when none is wanted, or when it goes on.
func upgradeWaits(in *status.Input) string {
	wanted := versions.Normalize(in.ControlPlane.Spec.Version)
	running := in.ControlPlane.Status.Versions
	if !slices.ContainsFunc(running, func(v clusterv1.StatusVersion) bool { return v.Version != wanted }) {
		return ""
	}
	changes := func(component string) bool {
		return etcdclusters.Bootstrapped(in.ControlPlane, component) && etcdclusters.Voters(in.ControlPlane, component) != *etcdclusters.Spec(in.ControlPlane, component).Replicas
	}
	switch {
	case slices.ContainsFunc(in.Outcomes, func(o flow.Outcome) bool { return o.Postponed() != "" }):
		return waitsForKubelets
	case in.Unsupported != nil:
		return waitsForVersion
	case in.Refused != nil:
		return waitsForPatches
	case slices.ContainsFunc(etcdcomponent.Components(), changes):
		return waitsForMembers
	case slices.ContainsFunc(in.Outcomes, func(o flow.Outcome) bool { return o.Problem() != nil }):
		return waitsForPerson
	}
	return ""
}
