//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/audit"
)

// What a person edits here is the Cluster and nothing else.
var _ = Describe("A Cluster of the class kok", Ordered, Label(full), func() {
	const version, next = "v1.35.4", "v1.36.3"
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	t := newTenant("topology", version, variables)
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

	It("is upgraded by its version alone, the control plane before its workers, and no write is lost", func(ctx SpecContext) {
		old := t.machines(ctx)
		t.haveHosts(ctx, t.workers+1)
		journals := t.startJournals(ctx, "topology")
		patch(ctx, t.cluster(ctx), fmt.Sprintf(`{"spec":{"topology":{"version":%q}}}`, next))
		Eventually(ctx, func(g Gomega) {
			machines := t.machines(ctx)
			g.Expect(machines).To(HaveLen(t.workers))
			for _, machine := range machines {
				if machine.Spec.Version == next {
					Expect(t.controlPlane(ctx).Status.Versions).To(ConsistOf(HaveField("Version", next)), "a worker is upgraded before the control plane")
				}
				g.Expect(machine.Spec.Version).To(Equal(next))
				g.Expect(old).NotTo(ContainElement(HaveField("Name", machine.Name)))
			}
		}).WithTimeout(upgrade).Should(Succeed())
		t.expectWorkers(ctx, t.workers)
		t.expectTopology(ctx)
		t.expectNothingLost(ctx, "topology_upgrade", journals)
		t.expectKubelets(ctx, next)
		Expect(t.quickstart().Hello(ctx)).To(Succeed())
	}, SpecTimeout(upgrade+3*join))

	It("goes to another class and keeps every pod and every worker", func(ctx SpecContext) {
		pods, machines := t.snapshot(ctx), t.machineNames(ctx)
		class, err := os.ReadFile(settings.class)
		Expect(err).NotTo(HaveOccurred())
		copied := filepath.Join(GinkgoT().TempDir(), "clusterclass-kok-2.yaml")
		Expect(os.WriteFile(copied, []byte(strings.ReplaceAll(string(class), "name: kok", "name: kok-2")), 0o600)).To(Succeed())
		Expect(env.run(ctx, env.kubectl, "apply", "--server-side", "--namespace", t.Namespace, "--filename", copied)).To(Succeed())
		patch(ctx, t.cluster(ctx), `{"spec":{"topology":{"classRef":{"name":"kok-2"}}}}`)
		t.expectTopology(ctx)
		t.expectHealthy(ctx)
		t.expectWorkers(ctx, t.workers)
		Expect(t.snapshot(ctx)).To(Equal(pods))
		Expect(t.machineNames(ctx)).To(Equal(machines))
	}, SpecTimeout(2*creation+join))

	It("goes with all that was made for it", func(ctx SpecContext) {
		took := t.delete(ctx)
		env.log.Print("%s was gone after %.1f s", t.ObjectKey, took.Seconds())
	}, SpecTimeout(join))
})

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
