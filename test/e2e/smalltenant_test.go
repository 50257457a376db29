//go:build e2e

package e2e

import (
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

var _ = Describe("A small tenant, with its events in the etcd with the data", Ordered, Label(full, features, "small"), func() {
	variables := single()
	maps.Copy(variables, map[string]string{"ETCD_EVENTS_MODE": "InData"})
	t := newTenant("small", "v1.35.4", variables)
	removeAfter(t)

	It("has one etcd, which takes its events", func(ctx SpecContext) {
		t.create(ctx)
		pods, err := t.pods(ctx, "")
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			Expect(pod.Labels[names.ComponentLabel]).NotTo(Equal(names.EtcdEvents), pod.Name)
		}
		figure("small_tenant_pods", len(pods), "pods")

		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "small"},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: metav1.NamespaceDefault}, Type: corev1.EventTypeNormal, Reason: "Test",
		}
		event, err = t.api.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, event, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(keys(ctx, t.etcd(ctx, names.EtcdData), eventKeys)).To(ContainElement(eventKeys + event.Namespace + "/" + event.Name))
		read, err := t.api.CoreV1().Events(metav1.NamespaceDefault).Get(ctx, event.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(read.UID).To(Equal(event.UID))
	}, NodeTimeout(2*creation))

	It("gains members, and is upgraded", func(ctx SpecContext) {
		Expect(env.client.Patch(ctx, t.controlPlane(ctx), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"etcd":{"data":{"replicas":3}}}}`)))).To(Succeed())
		Eventually(ctx, func() string { return t.controlPlane(ctx).Status.EtcdHealth }).WithTimeout(creation).Should(Equal("3/3"))
		t.expectHealthy(ctx)
		Expect(t.setVersion(ctx, "v1.36.3")).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			version, err := t.api.Discovery().ServerVersion()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(version.GitVersion).To(Equal("v1.36.3"))
		}).WithTimeout(creation).Should(Succeed())
		t.expectHealthy(ctx)
	}, NodeTimeout(3*creation))
})
