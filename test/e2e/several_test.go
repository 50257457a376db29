//go:build e2e

package e2e

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
)

var _ = Describe("Three highly available tenants on three host nodes", Ordered, Label(full, faults), func() {
	tenants := []*tenant{
		newTenant("one", "v1.36.3", nil), newTenant("two", "v1.35.4", nil), newTenant("three", "v1.36.3", nil),
	}
	removeAfter(tenants...)

	It("all work, each with its own ports (A5)", func(ctx SpecContext) {
		together(tenants, func(t *tenant) { t.create(ctx) })
		blocks := map[int32]*tenant{}
		for _, t := range tenants {
			first := t.controlPlane(ctx).Spec.Hosting.Ports.First
			Expect(blocks).NotTo(HaveKey(first))
			blocks[first] = t
			version, err := t.api.Discovery().ServerVersion()
			Expect(err).NotTo(HaveOccurred())
			Expect(version.GitVersion).To(Equal(t.version))
		}
	}, NodeTimeout(3*creation))

	It("do not notice that the manager starts again (A5)", func(ctx SpecContext) {
		before := map[*tenant]map[string]running.Pod{}
		for _, t := range tenants {
			before[t] = t.snapshot(ctx)
		}
		expectManager(ctx, killManager(ctx))
		for _, t := range tenants {
			t.expectHealthy(ctx)
			Expect(t.snapshot(ctx)).To(Equal(before[t]))
		}
	}, NodeTimeout(3*creation))

	It("are gone when they are deleted together", func(ctx SpecContext) {
		together(tenants, func(t *tenant) { t.delete(ctx) })
	}, NodeTimeout(creation))
})

var _ = Describe("A foreign process on a host port", Label(full, faults), Ordered, func() {
	// One port of a block that is pinned so that it can be taken first.
	const first = 29980
	t := newTenant("foreign", "v1.36.3", single())
	removeAfter(t)

	It("shows in a condition that names the port, and goes away with the process", func(ctx SpecContext) {
		hosts, err := requireLab().Hosts()
		Expect(err).NotTo(HaveOccurred())
		taken := ports.Of(first).Number(kubescheduler.HTTPS)
		var foreign []net.Listener
		for _, h := range hosts {
			Expect(h.InNetwork(func() error {
				listener, err := net.Listen("tcp4", net.JoinHostPort("0.0.0.0", strconv.Itoa(int(taken))))
				foreign = append(foreign, listener)
				return err
			})).To(Succeed())
		}
		release := sync.OnceFunc(func() {
			var errs []error
			for _, listener := range foreign {
				errs = append(errs, listener.Close())
			}
			Expect(errors.Join(errs...)).To(Succeed())
		})
		DeferCleanup(release)

		t.remove(ctx)
		Expect(env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}})).To(Succeed())
		t.apply(ctx, func(c *controlplanev1.KOKControlPlane) {
			t.makeSingle(c)
			c.Spec.Hosting.Ports.First = first
		})
		Eventually(ctx, func() string {
			return conditions.GetMessage(t.controlPlane(ctx), conditionsv1.ControlPlaneComponentsHealthyCondition)
		}).WithTimeout(creation).Should(ContainSubstring(strconv.Itoa(int(taken))))
		env.log.Print("%s", conditions.GetMessage(t.controlPlane(ctx), conditionsv1.ControlPlaneComponentsHealthyCondition))
		release()
		t.expectHealthy(ctx)
	}, NodeTimeout(3*creation))
})

// together does something with all tenants at once.
func together(tenants []*tenant, do func(*tenant)) {
	GinkgoHelper()
	var group sync.WaitGroup
	for _, t := range tenants {
		group.Go(func() {
			defer GinkgoRecover()
			do(t)
		})
	}
	group.Wait()
}

// makeSingle makes a control plane one with one of each.
func (t *tenant) makeSingle(c *controlplanev1.KOKControlPlane) {
	one := int32(1)
	c.Spec.Etcd.Data.Replicas, c.Spec.Etcd.Events.Replicas = &one, &one
	c.Spec.KubeControllerManager.Replicas, c.Spec.KubeScheduler.Replicas = &one, &one
}

// apply makes the tenant's Cluster and control plane with settings that the template does not know.
func (t *tenant) apply(ctx context.Context, edit func(*controlplanev1.KOKControlPlane)) {
	GinkgoHelper()
	cluster := t.clusterObject()
	cluster.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.244.0.0/16"}
	cluster.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.96.0.0/16"}
	cluster.Spec.ControlPlaneRef.APIGroup = controlplanev1.GroupVersion.Group
	cluster.Spec.ControlPlaneRef.Kind, cluster.Spec.ControlPlaneRef.Name = "KOKControlPlane", t.Name
	Expect(env.client.Create(ctx, cluster)).To(Succeed())
	controlPlane := t.object()
	edit(controlPlane)
	Expect(env.client.Create(ctx, controlPlane)).To(Succeed())
}

// object is the smallest control plane of the tenant.
func (t *tenant) object() *controlplanev1.KOKControlPlane {
	return &controlplanev1.KOKControlPlane{
		TypeMeta:   metav1.TypeMeta{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KOKControlPlane"},
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name},
		Spec:       controlplanev1.KOKControlPlaneSpec{Version: t.version},
	}
}
