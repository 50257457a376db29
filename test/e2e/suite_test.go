//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/etcdfaults"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/noise"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// Labels of specs. Those after full cut the suite into pieces, which make test-all or a person runs one by one.
const (
	gating = "gating"
	full   = "full"
	// onWorkers are about machines: how they join, run, fail and are replaced.
	onWorkers = "workers"
	// byKubeadm are about workers that kubeadm joins.
	byKubeadm = "kubeadm"
	// selfInstalled are about machines that install their software as a KOKSoftware says, on bare hosts.
	selfInstalled = "software"
	// foreignHosts are about hosts that are somebody's.
	foreignHosts = "foreign_hosts"
	// faults are about what fails under a control plane: hosts, links, managers.
	faults = "faults"
	// etcdFaults are about what the etcd of a tenant can lose: members, volumes, host nodes. Those that are prepared as well
	// damage data, and want members whose pods look at their data before etcd starts. Those that are slow take more than
	// ten minutes. Those that are transient cost no member; onDisks are those of them whose members are on disks that can fail.
	// A soak has those that are transient, and those that damage data while a member is stopped, one after the other.
	etcdFaults = "etcd_faults"
	prepared   = "prepared"
	slow       = "slow"
	transient  = "transient"
	onDisks    = "disks"
	soak       = "soak"
	// etcdBackups are about snapshots of the etcd of a tenant; formerData are those of them about members that come back with data from
	// before a restore, onAClaim those about snapshots on a volume that is claimed.
	etcdBackups = "etcd_backups"
	formerData  = "former_data"
	onAClaim    = "on_claim"
	// monitored are those of metrics in a real Prometheus.
	monitored = "monitoring"
	// features are about what a tenant may be given beside the usual.
	features = "features"
	// topologies are about Clusters of a ClusterClass.
	topologies = "topology"
	upgrades   = "upgrade"
	scales     = "scale"
	// everyMode are those that are the same in every mode of hosting beside the usual one.
	everyMode        = "modes"
	hostNetworkModes = "host_network"
	podNetworkModes  = "pod_network"
	// releases are specs that install other releases of the providers. They want the lab for themselves.
	releases = "releases"
	// install are specs that install what make release writes, as a stranger does. They want the lab for themselves, too.
	install = "install"
	// installPage are those that follow the page of the installation. They want the lab for themselves, too.
	installPage = "install_page"
	// attacks are those in which the administrator of a tenant attacks.
	attacks = "attack"
	// move are those that move a tenant to another management cluster.
	move = "move"
	// ofKeys are those that rotate keys, and that take changes back.
	ofKeys = "keys"
	// neighbours are those that measure what one tenant does to another. Nothing else may run beside them.
	neighbours = "neighbours"
	// hostVersions are those that the lab runs with a host cluster of each version (HOST_VERSION), hostUpgrade those that upgrade
	// it. They want a lab of their own.
	hostVersions = "host_versions"
	hostUpgrade  = "host_upgrade"
)

// settings are the suite's flags; paths are relative to where it is started.
var settings struct {
	kubeconfig, repository, programs, registry, tag, providerVersion, artifacts string
	releases                                                                    string
	template, workersTemplate, podNetworkTemplate, kubeadmTemplate              string
	topologyTemplate, class                                                     string
	keep                                                                        bool
	soakSeed                                                                    uint64
	soakLength                                                                  time.Duration
}

func init() {
	flag.StringVar(&settings.kubeconfig, "e2e.kubeconfig", "", "kubeconfig of an existing host cluster (default: the lab)")
	flag.StringVar(&settings.repository, "e2e.repository", "out", "folder that make release-manifests wrote")
	flag.StringVar(&settings.programs, "e2e.programs", "bin", "folder with the programs of the providers")
	flag.StringVar(&settings.registry, "e2e.image-registry", "ghcr.io/kube-on-kube", "registry and path of the providers' images")
	flag.StringVar(&settings.tag, "e2e.image-tag", "dev", "tag of the providers' images")
	flag.StringVar(&settings.providerVersion, "e2e.provider-version", "v0.1.0", "version of the control plane provider in the repository")
	flag.StringVar(&settings.releases, "e2e.releases", "out/releases", "folder that other releases of the providers are built in")
	flag.StringVar(&settings.template, "e2e.template", "templates/cluster-template-control-plane.yaml", "template of tenants")
	flag.StringVar(&settings.workersTemplate, "e2e.workers-template", "templates/cluster-template.yaml", "template of tenants with workers")
	flag.StringVar(&settings.podNetworkTemplate, "e2e.pod-network-template", "templates/cluster-template-pod-network.yaml", "template of tenants with workers whose control plane is on the pod network")
	flag.StringVar(&settings.kubeadmTemplate, "e2e.kubeadm-template", "templates/cluster-template-kubeadm.yaml", "template of tenants with workers that kubeadm joins")
	flag.StringVar(&settings.topologyTemplate, "e2e.topology-template", "templates/cluster-template-topology.yaml", "template of tenants by a topology")
	flag.StringVar(&settings.class, "e2e.class", "templates/clusterclass-kok.yaml", "the ClusterClass of such tenants")
	flag.StringVar(&settings.artifacts, "e2e.artifacts", "out/artifacts", "folder for what explains a failure")
	flag.Uint64Var(&settings.soakSeed, "e2e.soak-seed", 1, "what the faults of a soak are drawn from")
	flag.DurationVar(&settings.soakLength, "e2e.soak-length", 30*time.Minute, "how long after its start a soak has no more faults")
	flag.BoolVar(&settings.keep, "e2e.keep", false, "leave tenants as they are at the end, also after a failure")
}

// env is the host cluster that specs run on.
var env *environment

// TestMain also runs what a spec starts as a program of its own.
func TestMain(m *testing.M) {
	if reexec.Role() == noise.Role {
		os.Exit(noise.Main())
	}
	os.Exit(m.Run())
}

func TestEndToEnd(t *testing.T) {
	RegisterFailHandler(Fail)
	klog.SetOutput(GinkgoWriter)
	ctrl.SetLogger(GinkgoLogr)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(250 * time.Millisecond)
	RunSpecs(t, "Kube-on-Kube end to end")
	if len(faultRows) > 0 {
		if err := etcdfaults.Write(os.Stdout, faultRows); err != nil {
			t.Error(err)
		}
	}
	for _, figure := range measured {
		fmt.Println(figure)
	}
	for _, failure := range failures {
		t.Error(failure)
	}
}

// failures are those of all specs in a line each: the last that is printed says what went wrong.
var failures []string

var _ = ReportAfterSuite("failures in short", func(report Report) {
	const most = 1500
	for _, spec := range report.SpecReports {
		if spec.Failed() {
			message := strings.Join(strings.Fields(spec.FailureMessage()), " ")
			failures = append(failures, fmt.Sprintf("%s: %.*s", spec.FullText(), most, message))
		}
	}
})

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	env, err = newEnvironment(ctx)
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(10*time.Minute))

// Objects and logs are those of the moment of the failure: this runs before what cleans up.
var _ = JustAfterEach(func(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		collect(ctx)
	}
}, NodeTimeout(3*time.Minute))

// figure reports what a spec measured.
func figure(name string, value any, unit string) {
	AddReportEntry(figures.Entry, figures.New(name, value, unit), ReportEntryVisibilityNever, Offset(1))
}

// measured are the figures of all specs: they are kept under the name of the JSON report, and printed in the end, for
// people and for whoever compares runs.
var measured []figures.Figure

// faultRows is the table of the faults of etcd, which is printed before.
var faultRows []etcdfaults.Row

var _ = ReportAfterSuite("figures", func(report Report) {
	var err error
	measured, err = figures.OfReport(report)
	Expect(err).NotTo(HaveOccurred())
	for _, label := range []string{etcdFaults, soak} {
		rows, err := etcdfaults.OfReport(report, label)
		Expect(err).NotTo(HaveOccurred())
		faultRows = append(faultRows, rows...)
	}
	measured = append(measured, etcdfaults.Figures(faultRows)...)
	if _, reporter := GinkgoConfiguration(); reporter.JSONReport != "" {
		step := strings.TrimSuffix(filepath.Base(reporter.JSONReport), ".json")
		Expect(figures.Write(step, measured)).To(Succeed())
	}
})
