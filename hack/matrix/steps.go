package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processgroup"
)

// list is what one run of the matrix does.
type list struct {
	name  string
	steps []step
	// failsFast is true for a list that ends with its first failure.
	failsFast bool
	// figures are those that its steps have to measure.
	figures []wanted
	// figure begins the names of the figures of the run itself; empty when nobody asks for them.
	figure string
}

func lists() []list {
	return []list{
		{name: "test", failsFast: true, steps: gate(), figure: "gate"},
		{name: "test-all", steps: slices.Concat([]step{
			{name: "lint", target: "lint", usual: 3 * time.Minute},
			{name: "verify", target: "verify", usual: time.Minute},
			{name: "test-every", target: "test-every", usual: 40 * time.Minute},
			findings, namespaceAttack, fuzz,
			{name: "test-breaks", target: "test-breaks", usual: 10 * time.Minute},
			{name: "test-monitoring", target: "test-monitoring", usual: 8 * time.Minute},
			{name: "test-signing", target: "test-signing", usual: 8 * time.Minute},
			{name: "test-reproducible", target: "test-reproducible", usual: 15 * time.Minute},
			{name: "test-lb", target: "test-lb", usual: 10 * time.Minute},
			{name: "test-lab", target: "test-lab", usual: 10 * time.Minute},
			contracts, scale, scaleBootstrap,
		}, everySpec, quick, []step{capi, conformance, quickstart}), figures: slices.Concat(ratioFigures(), scaleFigures, securityFigures, upgradeFigures, moveFigures, hostFigures, softwareFigures, kubeadmFigures, faultFigures, backupFigures, formerDataFigures)},
		{name: "bench", steps: []step{
			{name: "bench-create", target: "bench-create", usual: 8 * time.Minute},
			endToEnd("e2e-upgrade", "upgrade", 15*time.Minute),
			join,
			{name: "bench-footprint", target: "bench-footprint", usual: 50 * time.Minute},
			{name: "bench-lb", target: "bench-lb", usual: 15 * time.Minute},
			{name: "bench-scale", target: "bench-scale", usual: 40 * time.Minute},
			{name: "bench-scale-bootstrap", target: "bench-scale-bootstrap", usual: 40 * time.Minute},
		}, figures: benchFigures},
		{name: "bench-quick", steps: quick, figures: ratioFigures()},
		{name: "bench-upgrade", steps: []step{
			endToEnd("e2e-upgrade", "upgrade || scale", time.Hour),
			releases, capi, contracts, conformance,
		}, figures: upgradeFigures},
		{name: "bench-install", steps: slices.Concat([]step{
			installPage, software,
			endToEnd("e2e-topology", "topology", 25*time.Minute),
			endToEnd("e2e-foreign-hosts", "foreign_hosts", 20*time.Minute),
			join,
		}, onHostClusters()), figures: installFigures},
		{name: "bench-security", steps: []step{
			findings, namespaceAttack, fuzz,
			endToEnd("e2e-attack", "attack", 25*time.Minute),
			endToEnd("e2e-neighbours", "neighbours", 12*time.Minute),
		}, figures: securityFigures},
		// The first wants the lab for itself, and says so at once where somebody is in it.
		{name: "bench-keys", steps: []step{releases, keys}, figures: keyFigures},
		{name: "bench-house", steps: []step{
			{name: "house", target: "house", usual: time.Minute},
			{name: "test-breaks", target: "test-breaks", usual: 10 * time.Minute},
			releases,
		}, figures: houseFigures},
	}
}

// gate is what every change has to pass. Its steps run one after the other: a tenant whose programs get no processor for ten
// seconds restarts them.
func gate() []step {
	var steps []step
	if os.Getenv("CI") != "" {
		// On a CI machine the lab is new; at home it goes on where it was.
		steps = append(steps, step{name: cleanLab, target: cleanLab})
	}
	return append(steps,
		step{name: "lint", target: "lint"},
		step{name: "verify", target: "verify"},
		step{name: "test-race", target: "test-race"},
		step{name: "test-others", target: "test-others"},
		endToEnd("e2e", "gating", 10*time.Minute),
	)
}

// everySpec are steps that run each spec of the suite test/e2e once, and some on each version of the host cluster, in pieces
// that parts can be made of.
var everySpec = slices.Concat([]step{
	endToEnd("e2e-gating", "gating", 12*time.Minute),
	endToEnd("e2e-neighbours", "neighbours", 12*time.Minute),
	endToEnd("e2e-workers", "workers && full && !gating && !kubeadm", 38*time.Minute),
	software,
	endToEnd("e2e-kubeadm", "kubeadm", 10*time.Minute),
	endToEnd("e2e-faults", "faults", 40*time.Minute),
	endToEnd("e2e-etcd-faults", "etcd_faults && !slow && !transient", 30*time.Minute),
	endToEnd("e2e-etcd-faults-slow", "etcd_faults && slow && !transient", 35*time.Minute),
	endToEnd("e2e-etcd-faults-transient", "etcd_faults && transient && !disks", 35*time.Minute),
	endToEnd("e2e-etcd-faults-disks", "etcd_faults && transient && disks", 25*time.Minute),
	endToEnd("e2e-soak", "soak", 42*time.Minute),
	endToEnd("e2e-etcd-backups", "etcd_backups && !slow && !former_data && !on_claim", 40*time.Minute),
	endToEnd("e2e-etcd-backups-on-claim", "on_claim", 12*time.Minute),
	endToEnd("e2e-etcd-backups-slow", "etcd_backups && slow && !former_data", 42*time.Minute),
	endToEnd("e2e-etcd-former-data", "etcd_backups && former_data", 35*time.Minute),
	keys,
	endToEnd("e2e-monitoring", "monitoring", 20*time.Minute),
	endToEnd("e2e-features", "features", 40*time.Minute),
	endToEnd("e2e-attack", "attack", 25*time.Minute),
	endToEnd("e2e-upgrade", "upgrade", 15*time.Minute),
	endToEnd("e2e-scale", "scale", 25*time.Minute),
	endToEnd("e2e-modes-host-network", "modes && host_network", 15*time.Minute),
	endToEnd("e2e-modes-pod-network", "modes && pod_network", 45*time.Minute),
	releases,
	endToEnd("e2e-install", "install", 25*time.Minute),
	installPage,
	endToEnd("e2e-move", "move", 18*time.Minute),
}, onHostClusters())

// quick are benchmarks of which ratios alone count: what is measured beside it meets the same machine.
var quick = []step{
	{name: "bench-create", target: "bench-create", args: []string{"CREATE_FLAGS=--modes=single --runs=1"}, usual: 2 * time.Minute},
	{name: "bench-lb", target: "bench-lb", args: []string{"LB_FLAGS=--measures=requests,connections --connections=1,8 --rounds=1"}, usual: 2 * time.Minute},
}

// cleanLab is the target that takes the lab away.
const cleanLab = "clean-lab"

// onHostClusters are steps with a host cluster of their own: one of each version, and one that is upgraded to the newest.
func onHostClusters() []step {
	versions := artifacts.HostVersions()
	var steps []step
	for _, version := range versions {
		steps = append(steps, endToEnd("e2e-host-"+version, "host_versions", 14*time.Minute).on(version))
	}
	return append(steps, endToEnd("e2e-host-upgrade", "host_upgrade", 14*time.Minute).on(versions[len(versions)-2]))
}

// findings and namespaceAttack need no lab.
var (
	findings        = step{name: "test-findings", target: "test-findings", usual: 10 * time.Minute}
	namespaceAttack = step{name: "test-attack-namespace", target: "test-attack-namespace", usual: 8 * time.Minute}
)

var (
	software    = endToEnd("e2e-software", "software", 30*time.Minute)
	installPage = endToEnd("e2e-install-page", "install_page", 30*time.Minute)
	keys        = endToEnd("e2e-keys", "keys", 38*time.Minute)
	releases    = endToEnd("e2e-releases", "releases", 25*time.Minute)
	fuzz        = step{name: "fuzz", target: "fuzz", usual: 12 * time.Minute}
	join        = step{name: "bench-join", target: "bench-join", usual: 10 * time.Minute}
	capi        = step{name: "capi", target: "test-capi", ginkgo: true, usual: 20 * time.Minute}
	// scale shows that the benchmark of the manager's scale works, with few tenants. What it counts does not depend on their number.
	scale = step{name: "bench-scale", target: "bench-scale", args: []string{"TENANTS=20", "SCALE_FLAGS=--first=10 --rest=20s"}, usual: 3 * time.Minute}
	// scaleBootstrap is the same for the bootstrap manager.
	scaleBootstrap = step{
		name: "bench-scale-bootstrap", target: "bench-scale-bootstrap", args: []string{"CLUSTERS=20", "MACHINES=100", "SCALE_FLAGS=--first=40 --rest=20s"}, usual: 2 * time.Minute,
	}
	contracts = step{name: "contracts", target: "test-contracts", usual: 10 * time.Minute}
	// quickstart is the last: its tenant stays.
	quickstart  = step{name: "quickstart", target: "quickstart", usual: 3 * time.Minute}
	conformance = step{name: "conformance", target: "test-conformance", usual: 35 * time.Minute}
)

// endToEnd runs the specs with some labels.
func endToEnd(name, labels string, usual time.Duration) step {
	s := step{name: name, target: "test-e2e", ginkgo: true, labels: labels, usual: usual}
	s.args = []string{"E2E_LABELS=" + labels, "E2E_TIMEOUT=" + max(4*usual, 40*time.Minute).String(), "E2E_REPORT=" + s.report()}
	return s
}

// on has the step run on a host cluster of a Kubernetes version, in a lab of its own.
func (s step) on(version string) step {
	s.hostVersion = version
	s.args = append(slices.Clone(s.args), "HOST_VERSION="+version)
	return s
}

// step is one make target of a list.
type step struct {
	// name is that of its log, of its figures (see package figures), and of its report.
	name, target string
	args         []string
	// ginkgo is true for a target that runs specs of ginkgo and writes their report.
	ginkgo bool
	// labels of the specs that it runs; empty when the target runs no others.
	labels string
	// usual is how long it usually takes on 2 cores, in a lab that is up; parts are made by it.
	usual time.Duration
	// hostVersion is the Kubernetes version of the host cluster that the step wants, in a lab that it makes and takes away;
	// empty for a step that needs no lab, or goes on with the one that is up.
	hostVersion string
}

// report is where the JSON report of ginkgo or of Go's tests is, if the step writes one.
func (s step) report() string { return filepath.Join("out", s.name+".json") }

// reported gives a row for each spec in the step's report, and for each of Go's tests that failed. Where specs should have
// run and none did, nothing was tested.
func (s step) reported() ([]row, error) {
	if !s.ginkgo {
		return readGoTests(s.report())
	}
	rows, err := readReport(s.report())
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("no spec ran of %s", s.title())
	}
	return rows, err
}

func (s step) title() string {
	if s.labels != "" {
		title := fmt.Sprintf("make %s E2E_LABELS=%q", s.target, s.labels)
		if s.hostVersion != "" {
			title += " HOST_VERSION=" + s.hostVersion
		}
		return title
	}
	return strings.Join(append([]string{"make", s.target}, s.args...), " ")
}

// cleanUpLimit is the time that an interrupted step has to remove what it made, more than the longest clean-up takes: one
// that is cut short leaves the lab unfit for what comes next.
const cleanUpLimit = 40 * time.Minute

// make has what the step runs be made. A lab of another version is of no use to other steps: the step's own goes again, also
// when it failed or was interrupted.
func (s step) make(ctx context.Context, run func(ctx context.Context, targets ...string) error) error {
	targets := append([]string{s.target}, s.args...)
	if s.hostVersion == "" {
		return run(ctx, targets...)
	}
	err := run(ctx, append([]string{cleanLab}, targets...)...)
	return errors.Join(err, run(context.WithoutCancel(ctx), cleanLab))
}

// run makes the target. Its output is shown and kept. What it reported before is forgotten.
func (s step) run(ctx context.Context, logs string) row {
	result := row{Name: s.title()}
	log := filepath.Join(logs, s.name+".log")
	file, err := os.Create(log)
	if err == nil {
		defer file.Close() //nolint:errcheck // A log that lost its end does not change the outcome.
		err = os.RemoveAll(s.report())
	}
	if err == nil {
		err = figures.Forget(s.name)
	}
	if err != nil {
		result.Outcome, result.Note = notRun, err.Error()
		return result
	}
	fmt.Printf("\n==== %s\n", s.title())
	began := time.Now()
	err = s.make(ctx, func(ctx context.Context, targets ...string) error {
		cmd := exec.CommandContext(ctx, "make", targets...)
		cmd.Stdout, cmd.Stderr = io.MultiWriter(file, screen{os.Stdout}), io.MultiWriter(file, screen{os.Stderr})
		// A terminal that sent a second interrupt would have ginkgo give up its clean-ups.
		return processgroup.Run(cmd, cleanUpLimit)
	})
	result.Took = time.Since(began)
	if err != nil {
		result.Outcome, result.Note = failedOutcome, log
		if ctx.Err() != nil {
			result.Note = "interrupted; " + log
		}
		return result
	}
	result.Outcome = passed
	return result
}
