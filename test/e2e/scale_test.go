//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// scaling bounds one change of the number of members: each joins alone, and API servers roll once.
const scaling = 20 * time.Minute

// The lab has three host nodes: two more join the pool for five members, each of which needs one of its own.
var _ = Describe("A control plane that is scaled", Ordered, Label(full, scales), func() {
	t := newTenant("scale", "v1.36.3", func() map[string]string {
		variables := single()
		variables["KUBE_PROXY_CONNTRACK"] = "None"
		return variables
	}())
	t.workers = 1
	var worker *host.Host
	var nodes []*corev1.Node

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t)
		t.createWithWorkers(ctx, 0)
		worker = t.worker(ctx)
		_, err := t.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		nodes = []*corev1.Node{addHostNode(ctx), addHostNode(ctx)}
		DeferCleanup(func(ctx SpecContext) {
			for _, node := range nodes {
				leavePool(ctx, node)
			}
		})
		t.expectHealthy(ctx)
	}, NodeTimeout(4*creation+join))

	// What was made before this node joined the first time, thus every member of etcd, runs on others.
	It("serves no longer from a host node that leaves the pool and again when it joins, loses no write and fails no request (A9)", func(ctx SpecContext) {
		journals := t.startJournals(ctx, "pool", worker)
		for _, change := range []func(context.Context, *corev1.Node){leavePool, joinPool} {
			before, ids := t.snapshot(ctx), t.members(ctx)
			change(ctx, nodes[0])
			t.expectHealthy(ctx)
			t.expectServedBy(ctx, env.hostNodes(ctx))
			t.expectBalances(ctx, worker)
			t.expectStayed(ctx, before, ids)
		}
		t.expectNothingLost(ctx, "scale", journals)
	}, SpecTimeout(8*creation))

	// A member that is added after one of its name was removed must not find the data of that one.
	for i, members := range []int{3, 5, 3, 1, 3} {
		name := fmt.Sprintf("members-%d-%d", i, members)
		It(fmt.Sprintf("has %d members of etcd, loses no write and fails no request (A9)", members), func(ctx SpecContext) {
			t.scaleMembers(ctx, name, members, worker)
		}, SpecTimeout(scaling+2*creation))
	}

	It("has more and fewer controller-managers and schedulers, loses no write and fails no request (A9)", func(ctx SpecContext) {
		journals := t.startJournals(ctx, "replicas", worker)
		for _, replicas := range []int{3, 1, 2} {
			before, ids := t.snapshot(ctx), t.members(ctx)
			patch(ctx, t.controlPlane(ctx), fmt.Sprintf(
				`{"spec":{"kubeControllerManager":{"replicas":%d},"kubeScheduler":{"replicas":%d}}}`, replicas, replicas))
			t.expectHealthy(ctx)
			t.expectStayed(ctx, before, ids)
		}
		t.expectNothingLost(ctx, "scale", journals)
	}, SpecTimeout(4*creation))

	It("says why it does not get more members than there are host nodes, and works on", func(ctx SpecContext) {
		before, ids := t.snapshot(ctx), t.members(ctx)
		patch(ctx, t.controlPlane(ctx), `{"spec":{"etcd":{"data":{"replicas":7}}}}`)
		Eventually(ctx, func(g Gomega) {
			up := conditions.Get(t.controlPlane(ctx), conditionsv1.ScalingUpCondition)
			g.Expect(up).NotTo(BeNil())
			g.Expect(up.Message).To(ContainSubstring("7 members need as many host nodes"))
		}).WithTimeout(creation).Should(Succeed())
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"etcd":{"data":{"replicas":%d}}}}`, len(ids)-1))
		t.expectMembers(ctx, len(ids)-1)
		t.expectHealthy(ctx)
		t.expectStayed(ctx, before, ids)
		Expect(t.members(ctx)).To(Equal(ids))
	}, SpecTimeout(scaling))

	It("loses no member while another one is away, says why, and goes on when that is back, loses no write and fails no request", func(ctx SpecContext) {
		const members, wanted = 3, 1
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"etcd":{"data":{"replicas":%d}}}}`, members))
		t.expectMembers(ctx, members)
		journals, before, ids := t.startJournals(ctx, "away", worker), t.snapshot(ctx), t.members(ctx)
		// Neither the one that stays, which API servers are told of, nor the last one, which may go while it is away.
		etcds := names.Object(t.Name, names.EtcdData)
		away, last := etcds+"-1", etcds+"-2"
		node := before[away].Node
		t.keepAway(ctx, away)

		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"etcd":{"data":{"replicas":%d}}}}`, wanted))
		t.expectRefusal(ctx, last, away)
		// Nothing else is in the way of the one that is to go.
		t.expectReplaced(ctx, names.KubeAPIServer, before)
		etcd := t.etcd(ctx, names.EtcdData)
		Consistently(ctx, func(g Gomega) {
			found, err := etcd.MemberList(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.Members).To(HaveLen(members))
			// The manager asks again in this time, at least once.
		}).WithTimeout(probe.Interval+probe.Timeout).WithPolling(time.Second).Should(Succeed(), "members while %s is away", away)
		t.expectRefusal(ctx, last, away)

		uncordon(ctx, node)
		t.expectMembers(ctx, wanted)
		t.expectHealthy(ctx)
		t.expectNothingLost(ctx, "scale", journals)
		t.expectStayed(ctx, before, ids, names.KubeAPIServer)
	}, SpecTimeout(scaling+4*creation))
})

// keepAway stops a member of etcd, as whoever works on its host does: it does not start again, which it can on that host
// alone, while the node is cordoned.
func (t *tenant) keepAway(ctx context.Context, member string) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: member}, pod)
	stopped := pod.UID
	cordon(ctx, pod.Spec.NodeName)
	Expect(env.client.Delete(ctx, pod)).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		pod := &corev1.Pod{}
		g.Expect(env.client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: member}, pod)).To(Succeed())
		g.Expect(pod.UID).NotTo(Equal(stopped))
		g.Expect(pod.Status.Conditions).To(ContainElement(And(
			HaveField("Type", corev1.PodScheduled), HaveField("Reason", corev1.PodReasonUnschedulable))))
	}).WithTimeout(creation).Should(Succeed(), "pod %s waits for its host", member)
}

// uncordon lets pods come to a node again.
func uncordon(ctx context.Context, node string) {
	GinkgoHelper()
	patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, `{"spec":{"unschedulable":false}}`)
}

// expectRefusal waits until the control plane says that the last member must not go while another one is away.
func (t *tenant) expectRefusal(ctx context.Context, last, away string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		down := conditions.Get(t.controlPlane(ctx), conditionsv1.ScalingDownCondition)
		g.Expect(down).NotTo(BeNil())
		g.Expect(down.Status).To(Equal(metav1.ConditionTrue))
		g.Expect(down.Message).To(ContainSubstring("member %s does not answer: without %s the quorum would be at risk", away, last))
	}).WithTimeout(creation).Should(Succeed())
}

// expectReplaced waits until every pod of a component is another one than before and ready.
func (t *tenant) expectReplaced(ctx context.Context, component string, before map[string]running.Pod) {
	GinkgoHelper()
	wanted := t.wantedPods(ctx)[component]
	Eventually(ctx, func(g Gomega) {
		pods, err := t.pods(ctx, component)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods).To(HaveLen(wanted))
		for _, pod := range pods {
			g.Expect(before).NotTo(HaveKey(pod.Name))
			g.Expect(isReady(&pod)).To(BeTrue(), "pod %s is ready", pod.Name)
		}
	}).WithTimeout(scaling).Should(Succeed(), "%s of %s is replaced", component, t.ObjectKey)
}

// scaleMembers gives the data's etcd a number of members under journals of a name, through workers and the endpoint.
func (t *tenant) scaleMembers(ctx context.Context, name string, members int, through ...*host.Host) {
	GinkgoHelper()
	journals, before := t.startJournals(ctx, name, through...), t.snapshot(ctx)
	ids := t.members(ctx)
	began := time.Now()
	patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"etcd":{"data":{"replicas":%d}}}}`, members))
	t.expectMembers(ctx, members)
	figure("scale_etcd_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), fmt.Sprintf("s to %d members", members))
	t.expectHealthy(ctx)
	t.expectNothingLost(ctx, "scale", journals)
	// API servers are told of members by their arguments.
	t.expectStayed(ctx, before, ids, names.KubeAPIServer)
}

// expectMembers waits until the data's etcd has a number of members and nothing is left of others.
func (t *tenant) expectMembers(ctx context.Context, members int) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		controlPlane := t.controlPlane(ctx)
		for _, name := range []string{conditionsv1.ScalingUpCondition, conditionsv1.ScalingDownCondition, conditionsv1.RollingOutCondition} {
			condition := conditions.Get(controlPlane, name)
			g.Expect(condition).NotTo(BeNil(), "condition %s", name)
			g.Expect(condition.Status).To(Equal(metav1.ConditionFalse), "%s: %s", name, condition.Message)
		}
		g.Expect(controlPlane.Status.ObservedGeneration).To(Equal(controlPlane.Generation))
		for _, cluster := range controlPlane.Status.Etcd {
			if cluster.Name == "data" {
				g.Expect(cluster.Members).To(HaveLen(members), "status.etcd")
				g.Expect(cluster.Members).To(HaveEach(HaveField("State", controlplanev1.EtcdMemberVoter)), "status.etcd")
			}
		}
		labels := client.MatchingLabels(names.ComponentLabels(t.ObjectKey, names.EtcdData))
		for what, list := range map[string]client.ObjectList{"claims": &corev1.PersistentVolumeClaimList{}, "Services": &corev1.ServiceList{}, "pods": &corev1.PodList{}} {
			g.Expect(env.client.List(ctx, list, client.InNamespace(t.Namespace), labels)).To(Succeed())
			g.Expect(list).To(HaveField("Items", HaveLen(members)), what)
		}
	}).WithTimeout(scaling).Should(Succeed(), "%d members of %s", members, t.ObjectKey)
}

// expectStayed compares what runs with what ran: pods came or went, and none was replaced or restarted, but for those of
// components that may roll; a member that is there still is who it was.
func (t *tenant) expectStayed(ctx context.Context, before map[string]running.Pod, members map[string]uint64, mayRoll ...string) {
	GinkgoHelper()
	Expect(running.Rolled(before, t.snapshot(ctx), mayRoll...)).To(BeEmpty())
	for name, id := range t.members(ctx) {
		if was, there := members[name]; there {
			Expect(id).To(Equal(was), "ID of member %s", name)
		}
	}
}
