//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	. "github.com/onsi/gomega/gstruct"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// leaders kills the pods that lead in tenant a.
func (j *journey) leaders() {
	It("passes on when the pod that leads is killed, and work goes on (A1)", func(ctx SpecContext) {
		components := []string{names.KubeControllerManager, names.KubeScheduler}
		before := map[string]string{}
		for _, component := range components {
			before[component] = j.leader(ctx, component)
			pods, err := j.a.pods(ctx, component)
			Expect(err).NotTo(HaveOccurred())
			Expect(pods).To(HaveLen(2))
			var killed *corev1.Pod
			for i := range pods {
				// A process calls itself after its host: the node on the host's network, else the pod.
				host := pods[i].Name
				if pods[i].Spec.HostNetwork {
					host = pods[i].Spec.NodeName
				}
				if strings.HasPrefix(before[component], host+"_") {
					killed = &pods[i]
				}
			}
			Expect(killed).NotTo(BeNil(), "no pod of %s is its leader %s", component, before[component])
			Expect(env.client.Delete(ctx, killed, client.GracePeriodSeconds(1))).To(Succeed())
		}
		for _, component := range components {
			Eventually(ctx, func() string { return j.leader(ctx, component) }).Should(
				And(Not(BeEmpty()), Not(Equal(before[component]))), "leader of %s", component)
		}

		labels := map[string]string{"app": "after"}
		_, err := j.a.api.AppsV1().Deployments(testNamespace).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "after"},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10"}}},
				},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		// The tenant has no node: its scheduler has looked at a pod when it says so.
		Eventually(ctx, func(g Gomega) {
			pods, err := j.a.api.CoreV1().Pods(testNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=after"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods.Items).To(HaveLen(2))
			for _, pod := range pods.Items {
				g.Expect(pod.Status.Conditions).To(ContainElement(MatchFields(IgnoreExtras, Fields{
					"Type": Equal(corev1.PodScheduled), "Reason": Equal(corev1.PodReasonUnschedulable),
				})))
			}
		}).Should(Succeed())
		Expect(j.a.api.AppsV1().Deployments(testNamespace).Delete(ctx, "after", metav1.DeleteOptions{
			PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})).To(Succeed())
		j.a.expectHealthy(ctx)
	})
}

// leader is the holder of a component's lease.
func (j *journey) leader(ctx context.Context, component string) string {
	GinkgoHelper()
	lease, err := j.a.api.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, component, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// leaderOf is the name of the member that leads an etcd.
func leaderOf(ctx context.Context, g Gomega, etcd *clientv3.Client) string {
	GinkgoHelper()
	status, err := etcd.Status(ctx, etcd.Endpoints()[0])
	g.Expect(err).NotTo(HaveOccurred())
	found, err := etcd.MemberList(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	leader := slices.IndexFunc(found.Members, func(m *etcdserverpb.Member) bool { return m.ID == status.Leader })
	g.Expect(leader).To(BeNumerically(">=", 0), "no member has the ID of the leader, %x", status.Leader)
	return found.Members[leader].Name
}

// term is the present term of the data's etcd: each election begins another one.
func (t *tenant) term(ctx context.Context) uint64 {
	GinkgoHelper()
	etcd := t.etcd(ctx, names.EtcdData)
	status, err := etcd.Status(ctx, etcd.Endpoints()[0])
	Expect(err).NotTo(HaveOccurred())
	return status.RaftTerm
}

// expectLed waits until each leader has renewed its lease from now on: one that could not for a while, as API servers were
// away, ends itself.
func (j *journey) expectLed(ctx context.Context) {
	GinkgoHelper()
	began := time.Now()
	for _, component := range []string{names.KubeControllerManager, names.KubeScheduler} {
		Eventually(ctx, func(g Gomega) {
			lease, err := j.a.api.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, component, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(lease.Spec.RenewTime).NotTo(BeNil())
			g.Expect(lease.Spec.RenewTime.Time).To(BeTemporally(">", began))
		}).Should(Succeed(), "leader of %s", component)
	}
	j.a.expectHealthy(ctx)
}
