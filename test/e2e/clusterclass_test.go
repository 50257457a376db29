//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	supported "github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/audit"
)

// What a person edits here is the Cluster and nothing else.
var _ = Describe("A Cluster of the class kok", Ordered, Label(full, features, topologies), func() {
	versions := []string{"v1.34.4", "v1.35.4", "v1.36.3"}
	last := versions[len(versions)-1]
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	t := newTenant("topology", versions[0], variables)
	t.workers, t.template, t.class = 1, &settings.topologyTemplate, &settings.class

	BeforeAll(func() {
		requireLab()
		removeWithHosts(t)
	})

	It("becomes a control plane and a worker", func(ctx SpecContext) {
		t.createOfVersion(ctx)
		t.expectWorkers(ctx, t.workers)
		t.expectTopology(ctx)
	}, SpecTimeout(building+2*creation+join))

	It("costs no write while nothing changes", func(ctx SpecContext) {
		log := openAudit()
		counted := func(event *auditv1.Event) bool {
			return audit.IsWrite(event) && event.ObjectRef.Namespace == t.Namespace && event.ObjectRef.Resource != "events"
		}
		expectQuiet(ctx, log, counted)
		var writes []string
		passTime(ctx, settledTime, func() string {
			events, err := log.Next()
			Expect(err).NotTo(HaveOccurred())
			for i := range events {
				if counted(&events[i]) {
					writes = append(writes, audit.Describe(&events[i]))
				}
			}
			return fmt.Sprintf("%d writes", len(writes))
		})
		figure("topology_settled_writes", len(writes), "writes")
		Expect(writes).To(BeEmpty())
	}, SpecTimeout(settledTime+creation))

	It("changes what a variable is for, and no pod of anything else", func(ctx SpecContext) {
		before := t.snapshot(ctx)
		deployment := &appsv1.Deployment{}
		key := client.ObjectKey{Namespace: t.Namespace, Name: names.Object(t.Name, names.KubeScheduler)}
		get(ctx, key, deployment)
		replicas := *deployment.Spec.Replicas + 1
		t.set(ctx, "schedulerReplicas", replicas)
		Eventually(ctx, func(g Gomega) {
			g.Expect(env.client.Get(ctx, key, deployment)).To(Succeed())
			g.Expect(deployment.Status.ReadyReplicas).To(Equal(replicas))
		}).WithTimeout(creation).Should(Succeed())
		t.expectTopology(ctx)
		t.expectHealthy(ctx)
		after := t.snapshot(ctx)
		for name, was := range before {
			Expect(after).To(HaveKeyWithValue(name, was))
		}
	}, SpecTimeout(3*creation))

	It("goes to the class that has the versions to go through, and keeps every pod and every worker", func(ctx SpecContext) {
		pods, machines := t.snapshot(ctx), t.machineNames(ctx)
		published := filepath.Join(settings.repository, "repository", "infrastructure-idc", settings.providerVersion, "clusterclass-kok-chained.yaml")
		Expect(env.run(ctx, env.kubectl, "apply", "--server-side", "--namespace", t.Namespace, "--filename", published)).To(Succeed())
		chained := &clusterv1.ClusterClass{}
		get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: "kok-chained"}, chained)
		// A person who runs other patch versions edits this list.
		Expect(chained.Spec.KubernetesVersions).To(Equal(versions), "the versions that this spec goes through")
		patch(ctx, t.cluster(ctx), `{"spec":{"topology":{"classRef":{"name":"kok-chained"}}}}`)
		t.expectTopology(ctx)
		t.expectHealthy(ctx)
		t.expectWorkers(ctx, t.workers)
		Expect(t.snapshot(ctx)).To(Equal(pods))
		Expect(t.machineNames(ctx)).To(Equal(machines))
	}, SpecTimeout(2*creation+join))

	It("is upgraded over a minor by one edit of its version, the control plane before its workers, and no write is lost", func(ctx SpecContext) {
		old := t.machines(ctx)
		worker := t.worker(ctx)
		release := holdNode(ctx, &old[0])
		t.haveHosts(ctx, t.workers+1)
		journals := t.startJournals(ctx, "topology", worker)
		endpoint, balanced := journals[:1], journals[1:]
		began := time.Now()
		patch(ctx, t.cluster(ctx), fmt.Sprintf(`{"spec":{"topology":{"version":%q}}}`, last))
		t.expectChain(ctx, versions)
		figure("topology_upgrade_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s to "+last+" through "+versions[1])
		Eventually(ctx, func(g Gomega) {
			machines := t.machines(ctx)
			g.Expect(machines).To(HaveLen(t.workers))
			for _, machine := range machines {
				g.Expect(machine.Spec.Version).To(Equal(last))
				g.Expect(old).NotTo(ContainElement(HaveField("Name", machine.Name)))
			}
		}).WithTimeout(2*join).Should(Succeed(), "workers of %s", last)
		t.expectNothingLost(ctx, "topology_upgrade", balanced)
		release(ctx)
		t.expectWorkers(ctx, t.workers)
		t.expectTopology(ctx)
		t.expectHealthy(ctx)
		t.expectProxies(ctx, last)
		t.expectNothingLost(ctx, "topology_upgrade", endpoint)
		t.expectKubelets(ctx, last)
		Expect(t.quickstart().Hello(ctx)).To(Succeed())
	}, SpecTimeout(2*upgrade+3*creation+5*join))

	It("goes with all that was made for it", func(ctx SpecContext) {
		took := t.delete(ctx)
		env.log.Print("%s was gone after %.1f s", t.ObjectKey, took.Seconds())
	}, SpecTimeout(join))
})

// expectChain waits until the control plane went through versions, of which each is complete before the next begins. Until
// the last is complete workers stay as they are: a kubelet may be three minors older than its API servers.
func (t *tenant) expectChain(ctx context.Context, versions []string) {
	GinkgoHelper()
	first, last := versions[0], versions[len(versions)-1]
	passed := sets.New[string]()
	Eventually(ctx, func(g Gomega) {
		machines := t.machines(ctx)
		t.expectNoneAhead(ctx)
		var running []string
		for _, version := range t.controlPlane(ctx).Status.Versions {
			running = append(running, version.Version)
		}
		for i := 1; i < len(running); i++ {
			Expect(slices.Index(versions, running[i])).To(Equal(slices.Index(versions, running[i-1])+1), "versions that run at a time: %v", running)
		}
		passed.Insert(running...)
		if !slices.Equal(running, []string{last}) {
			Expect(machines).To(HaveEach(HaveField("Spec.Version", first)), "workers while the control plane runs %v", running)
		}
		g.Expect(running).To(Equal([]string{last}), "status.versions")
	}).WithTimeout(2*upgrade).Should(Succeed(), "upgrade of %s to %s", t.ObjectKey, last)
	Expect(passed.UnsortedList()).To(ConsistOf(versions), "versions that ran")
}

// expectNoneAhead sees to it that no API server is older than what talks to it.
func (t *tenant) expectNoneAhead(ctx context.Context) {
	GinkgoHelper()
	for _, component := range upgraded[1:] {
		clients, err := t.pods(ctx, component)
		Expect(err).NotTo(HaveOccurred())
		servers, err := t.pods(ctx, upgraded[0])
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range clients {
			for _, server := range servers {
				Expect(supported.Compare(server.Labels[names.VersionLabel], pod.Labels[names.VersionLabel])).To(BeNumerically(">=", 0),
					"pod %s is ahead of pod %s", pod.Name, server.Name)
			}
		}
	}
}

// holdNode has a Machine that is deleted keep its node, and so its host, until release is called, or the spec ends. A Machine
// of its own takes its place meanwhile.
func holdNode(ctx context.Context, machine *clusterv1.Machine) (release func(context.Context)) {
	GinkgoHelper()
	const hook = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/journal"
	patch(ctx, machine, fmt.Sprintf(`{"metadata":{"annotations":{%q:"e2e"}}}`, hook))
	release = func(ctx context.Context) {
		GinkgoHelper()
		without := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, hook))
		Expect(client.IgnoreNotFound(env.client.Patch(ctx, machine, without))).To(Succeed())
	}
	DeferCleanup(func(ctx SpecContext) { release(ctx) })
	return release
}

// set gives a variable of the Cluster's topology another value.
func (t *tenant) set(ctx context.Context, variable string, value int32) {
	GinkgoHelper()
	cluster := t.cluster(ctx)
	before := cluster.DeepCopy()
	for i := range cluster.Spec.Topology.Variables {
		if cluster.Spec.Topology.Variables[i].Name == variable {
			cluster.Spec.Topology.Variables[i].Value.Raw = fmt.Appendf(nil, "%d", value)
			Expect(env.client.Patch(ctx, cluster, client.MergeFrom(before))).To(Succeed())
			return
		}
	}
	Fail("the Cluster has no variable " + variable)
}

// expectTopology waits until Cluster API carried out what the Cluster's topology says, as it is now.
func (t *tenant) expectTopology(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		cluster := t.clusterObject()
		g.Expect(env.client.Get(ctx, t.ObjectKey, cluster)).To(Succeed())
		condition := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.ObservedGeneration).To(Equal(cluster.Generation))
		g.Expect(condition.Status).To(Equal(metav1.ConditionTrue), condition.Message)
	}).WithTimeout(creation).WithPolling(time.Second).Should(Succeed())
}

func (t *tenant) machineNames(ctx context.Context) []string {
	GinkgoHelper()
	var all []string
	for _, machine := range t.machines(ctx) {
		all = append(all, machine.Name)
	}
	return all
}
