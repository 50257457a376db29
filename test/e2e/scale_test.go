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
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
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

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(t)
		t.createWithWorkers(ctx, 0)
		worker = t.worker(ctx)
		_, err := t.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		nodes := []*corev1.Node{addHostNode(ctx), addHostNode(ctx)}
		DeferCleanup(func(ctx SpecContext) {
			for _, node := range nodes {
				leavePool(ctx, node)
			}
		})
		t.expectHealthy(ctx)
	}, NodeTimeout(4*creation+join))

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
		t.expectNothingLost(ctx, "scale_replicas", journals)
	}, SpecTimeout(4*creation))

	It("says why it does not get more members than there are host nodes, and works on", func(ctx SpecContext) {
		before, ids := t.snapshot(ctx), t.members(ctx)
		patch(ctx, t.controlPlane(ctx), `{"spec":{"etcd":{"data":{"replicas":7}}}}`)
		Eventually(ctx, func(g Gomega) {
			up := conditions.Get(t.controlPlane(ctx), controlplanev1.ScalingUpCondition)
			g.Expect(up).NotTo(BeNil())
			g.Expect(up.Message).To(ContainSubstring("7 members need as many host nodes"))
		}).WithTimeout(creation).Should(Succeed())
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"etcd":{"data":{"replicas":%d}}}}`, len(ids)-1))
		t.expectMembers(ctx, len(ids)-1)
		t.expectHealthy(ctx)
		t.expectStayed(ctx, before, ids)
		Expect(t.members(ctx)).To(Equal(ids))
	}, SpecTimeout(scaling))
})

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
		for _, name := range []string{controlplanev1.ScalingUpCondition, controlplanev1.ScalingDownCondition, controlplanev1.RollingOutCondition} {
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
