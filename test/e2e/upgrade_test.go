//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	supported "github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/journal"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// upgrade bounds the upgrade of a control plane by a minor: ten times what it may take.
	upgrade = 20 * time.Minute
	// journalRate is the number of writes a second of each journal.
	journalRate = 50
	// watchPatience bounds what a watch needs to bring the last writes.
	watchPatience = time.Minute
)

// upgraded are the components that run Kubernetes' own programs, in the order of Kubernetes' version skew policy.
var upgraded = []string{names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler}

// A worker with the oldest kubelet stays as it is: its control plane is upgraded first, minor by minor. All minors have one
// etcd, which nothing restarts; one that comes with another is in versions_test.go.
var _ = Describe("An upgrade of a control plane", Ordered, Label(full, upgrades), func() {
	versions := []string{"v1.34.4", "v1.35.4", "v1.36.3"}
	t := newTenant("upgrade", versions[0], map[string]string{"KUBE_PROXY_CONNTRACK": "None"})
	t.workers = 1
	var worker *host.Host

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t)
		worker = t.createOfVersion(ctx)
	}, NodeTimeout(building+2*creation+join))

	for _, version := range versions[1:] {
		It("to "+version+" fails no request and loses no write", func(ctx SpecContext) {
			release, err := supported.BuiltIn().Release(version)
			Expect(err).NotTo(HaveOccurred())
			t.upgradeTo(ctx, version, release.Etcd, worker)
			t.expectWorkers(ctx, t.workers)
			t.expectKubelets(ctx, t.version)
			Expect(t.quickstart().Hello(ctx)).To(Succeed())
		}, SpecTimeout(upgrade+3*creation+2*join))
	}
})

// upgradeTo upgrades the control plane under journals through workers and the endpoint, until its addons are of the version
// too. etcd is the tag of etcd's image that goes with the version.
func (t *tenant) upgradeTo(ctx context.Context, version, etcd string, through ...*host.Host) {
	GinkgoHelper()
	journals := t.startJournals(ctx, version, through...)
	began := time.Now()
	patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"version":%q}}`, version))
	t.expectVersion(ctx, version, etcd)
	figure("upgrade_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s to "+version)
	t.expectHealthy(ctx)
	t.expectProxies(ctx, version)
	t.expectAllWell(ctx, env.client)
	figure("upgrade_with_addons_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s to "+version)
	t.expectNothingLost(ctx, "upgrade", journals)
}

// createOfVersion makes the tenant with one worker, all of a version that the lab does not bring along.
func (t *tenant) createOfVersion(ctx context.Context) *host.Host {
	GinkgoHelper()
	built := builtVersion(ctx, t.version)
	for _, image := range built.ControlPlane {
		Expect(env.lab.LoadBuilt(ctx, image)).To(Succeed())
	}
	t.create(ctx)
	hosts := t.haveHosts(ctx, t.workers, built.Kubelet)
	Expect(env.lab.LoadBuilt(ctx, built.Proxy, hosts...)).To(Succeed())
	q := t.quickstart()
	Expect(q.InstallNetwork(ctx, env.network)).To(Succeed())
	Expect(q.WaitWorkers(ctx)).To(Succeed())
	Expect(q.Hello(ctx)).To(Succeed())
	t.expectKubelets(ctx, t.version)
	return t.worker(ctx)
}

// startJournals writes and reads through the load balancers of workers and through the endpoint.
func (t *tenant) startJournals(ctx context.Context, name string, through ...*host.Host) []*journal.Journal {
	GinkgoHelper()
	_, err := t.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}, metav1.CreateOptions{})
	Expect(err).To(Or(Not(HaveOccurred()), MatchError(apierrors.IsAlreadyExists, "IsAlreadyExists")))
	options := []journal.Options{{Name: "endpoint-" + name, Config: t.access}}
	for _, worker := range through {
		options = append(options, journal.Options{Name: worker.Name + "-" + name, Config: t.keptConfig(configuration.DefaultListenAddress, worker.Dial)})
	}
	var journals []*journal.Journal
	for _, o := range options {
		o.Namespace, o.Rate = testNamespace, journalRate
		started, err := journal.Start(ctx, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(started.Stop)
		journals = append(journals, started)
	}
	return journals
}

// expectNothingLost ends journals: no write or read failed, all that was acknowledged is there, and each watch brought it.
// A journal that wrote less than half of its pace was not there all the time.
func (t *tenant) expectNothingLost(ctx context.Context, what string, journals []*journal.Journal) {
	GinkgoHelper()
	ended := &ended{}
	t.end(ctx, what, journals, ended)
	ended.tell(what)
	ended.expectNothingLost()
}

// ended is what came of journals that ended.
type ended struct {
	acknowledged                    int
	failed, missing, unseen, sparse []string
	raw                             load.Raw
}

// end ends journals of a tenant, and adds what came of them.
func (t *tenant) end(ctx context.Context, what string, journals []*journal.Journal, e *ended) {
	GinkgoHelper()
	for _, j := range journals {
		late, err := j.Unseen(ctx, watchPatience)
		Expect(err).NotTo(HaveOccurred())
		e.unseen = append(e.unseen, late...)
		j.Stop()
		result := j.Result()
		env.log.Print("%s: %s", what, result)
		if result.Acknowledged <= max(journalRate, result.Due/2) {
			e.sparse = append(e.sparse, result.String())
		}
		e.acknowledged += result.Acknowledged
		e.failed, e.raw = append(e.failed, result.Failed...), e.raw.Plus(result.Raw)
		gone, err := j.Lost(ctx, t.api)
		Expect(err).NotTo(HaveOccurred())
		e.missing = append(e.missing, gone...)
	}
}

// tell prints the figures of journals.
func (e *ended) tell(what string) {
	figure(what+"_failed_requests", len(e.failed), "requests")
	figure(what+"_lost_writes", len(e.missing), "writes")
	figure(what+"_raw_429", e.raw.TooMany, "requests")
	figure(what+"_raw_5xx", e.raw.ServerErrors, "requests")
	figure(what+"_raw_broken", e.raw.Broken, "requests")
}

func (e *ended) expectNothingLost() {
	GinkgoHelper()
	Expect(e.missing).To(BeEmpty(), "lost writes")
	Expect(e.unseen).To(BeEmpty(), "writes that watches did not bring")
	Expect(e.failed).To(BeEmpty(), "failed requests")
	Expect(e.sparse).To(BeEmpty(), "journals that wrote too little to tell")
}

// expectEtcdAloneFailed sees to it that nothing was lost, and that no request failed but a few that were on their way to a leader of etcd when the
// lead moved: etcd drops what it proposes without a leader, or waits for an answer in vain. How many these are is told as figures; more than one in
// a hundred means that leaders ended without giving their lead away.
func (e *ended) expectEtcdAloneFailed(what string) {
	GinkgoHelper()
	all := len(e.failed)
	for _, moved := range []struct{ text, name string }{{"etcdserver: request timed out", "timed_out"}, {"raft proposal dropped", "dropped"}} {
		before := len(e.failed)
		e.failed = slices.DeleteFunc(e.failed, func(request string) bool { return strings.Contains(request, moved.text) })
		figure(what+"_requests_"+moved.name, before-len(e.failed), "requests")
	}
	e.expectNothingLost()
	Expect(all).To(BeNumerically("<=", e.acknowledged/100), "requests that failed while etcd's lead moved")
}

// expectVersion waits until all components run a version and nothing else, and sees to it that none was ahead of those
// that come before it. etcd is the tag of etcd's image that goes with the version.
func (t *tenant) expectVersion(ctx context.Context, version, etcd string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		t.expectEtcdFirst(ctx, version, etcd)
		t.expectOrder(ctx, version)
		g.Expect(t.controlPlane(ctx).Status.Versions).To(ConsistOf(HaveField("Version", version)), "status.versions")
	}).WithTimeout(upgrade).Should(Succeed(), "upgrade of %s to %s", t.ObjectKey, version)
}

// expectEtcdFirst sees to it that every member of both etcds has its image before the first API server stops.
func (t *tenant) expectEtcdFirst(ctx context.Context, version, tag string) {
	GinkgoHelper()
	servers, err := t.pods(ctx, names.KubeAPIServer)
	Expect(err).NotTo(HaveOccurred())
	goes := func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil || runs(version)(pod) }
	if !slices.ContainsFunc(servers, goes) {
		return
	}
	wanted := t.wantedPods(ctx)
	for _, component := range []string{names.EtcdData, names.EtcdEvents} {
		members, err := t.pods(ctx, component)
		Expect(err).NotTo(HaveOccurred())
		Expect(members).To(HaveLen(wanted[component]), "members of %s when API servers go to %s", component, version)
		for _, member := range members {
			Expect(member.Spec.Containers[0].Image).To(HaveSuffix("/etcd:"+tag), "image of %s when API servers go to %s", member.Name, version)
		}
	}
}

func (t *tenant) expectOrder(ctx context.Context, version string) {
	GinkgoHelper()
	for i, component := range upgraded[1:] {
		pods, err := t.pods(ctx, component)
		Expect(err).NotTo(HaveOccurred())
		if !slices.ContainsFunc(pods, runs(version)) {
			continue
		}
		before, err := t.pods(ctx, upgraded[0])
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range before {
			if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
				continue // It has ended, and its object is on the way out.
			}
			Expect(runs(version)(pod)).To(BeTrue(), "%s runs %s before pod %s does", upgraded[i+1], version, pod.Name)
		}
	}
}

// expectProxies waits until kube-proxy of a version, and no other, runs on every worker, unless others care for it.
func (t *tenant) expectProxies(ctx context.Context, version string) {
	GinkgoHelper()
	if t.controlPlane(ctx).Spec.Addons.KubeProxy.Mode != controlplanev1.AddonManaged {
		return
	}
	Eventually(ctx, func(g Gomega) {
		proxies, err := t.api.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(proxies.Spec.Template.Spec.Containers).To(ConsistOf(HaveField("Image", HaveSuffix("/kube-proxy:"+version))))
		g.Expect(proxies.Status.ObservedGeneration).To(Equal(proxies.Generation))
		g.Expect(proxies.Status.UpdatedNumberScheduled).To(BeEquivalentTo(t.workers), "workers with a pod of the new template")
		g.Expect(proxies.Status.NumberAvailable).To(BeEquivalentTo(t.workers), "workers with a pod that is available")
	}).WithTimeout(creation).Should(Succeed(), "kube-proxy of %s", t.ObjectKey)
}

func runs(version string) func(corev1.Pod) bool {
	return func(pod corev1.Pod) bool { return pod.Labels[names.VersionLabel] == version }
}
