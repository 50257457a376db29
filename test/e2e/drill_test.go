//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

var _ = Describe("A host cluster that is lost", Label(full, etcdBackups), func() {
	It("gives its place to another one, where the tenant comes back with its workers, from the bucket and a person's key alone", Label("drill"), func(ctx SpecContext) {
		b := newBackedUp(ctx, "drill")
		taken, before := b.createWithWorker(ctx)
		machine := b.machines(ctx)[0]
		worker, node, block := b.worker(ctx), machine.Status.NodeRef.Name, b.controlPlane(ctx).Spec.Hosting.Ports.First
		runs := b.onWorker(ctx, worker, node)

		By("nothing is left of it but the store and the workers")
		b.lose(ctx)

		By("another one takes its place, with the addresses of the former")
		b.workers = 0
		began := b.restoresFrom(b.ObjectKey, "--latest")
		edit := b.edit
		b.edit = func(c *controlplanev1.KOKControlPlane) {
			edit(c)
			c.Spec.Etcd.Backup.Store = b.bucketOf("second")
			c.Spec.Hosting.Ports.First = block
		}
		b.create(ctx)
		Eventually(ctx, func(g Gomega) {
			found, err := b.api.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.NodeReady), HaveField("Status", corev1.ConditionTrue),
				HaveField("LastHeartbeatTime.Time", BeTemporally(">", *began)))))
		}).WithTimeout(join).Should(Succeed(), "the worker reports to the restored tenant")
		figure("drill_seconds", fmt.Sprintf("%.1f", time.Since(*began).Seconds()), "s until the worker is ready")
		Expect(b.onWorker(ctx, worker, node)).To(Equal(runs), "the worker, its kubelet and its pods")
		b.expectAsIn(ctx, taken, before, "drill_objects_different")
	}, SpecTimeout(8*creation+3*join+3*backupEvery))
})

// managersOfTenants are the programs that care for tenants and their machines.
var managersOfTenants = append(slices.Clone(ownManagers), coreManager)

// lose takes away all that the management cluster and the host cluster have of a tenant, while nobody is there to clean up: workers are
// left as they are.
func (b *backedUp) lose(ctx context.Context) {
	GinkgoHelper()
	ignoreWebhooks(ctx)
	scaleManagers(ctx, 0)
	DeferCleanup(func(ctx SpecContext) { scaleManagers(ctx, 1) }, NodeTimeout(creation))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.Namespace}}
	Expect(env.client.Delete(ctx, namespace)).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		g.Expect(withoutFinalizers(ctx, b.Namespace)).To(Succeed())
		g.Expect(env.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	}).WithTimeout(creation).Should(Succeed(), "namespace %s is gone", b.Namespace)
	scaleManagers(ctx, 1)
}

// ignoreWebhooks has the API server take what it would send to a webhook whose server is not there, until the spec is over.
func ignoreWebhooks(ctx context.Context) {
	GinkgoHelper()
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind(kind + "List"))
		Expect(env.client.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			now := &list.Items[i]
			before := now.DeepCopy()
			webhooks, _, err := unstructured.NestedSlice(now.Object, "webhooks")
			Expect(err).NotTo(HaveOccurred())
			for _, webhook := range webhooks {
				webhook.(map[string]any)["failurePolicy"] = string(admissionv1.Ignore)
			}
			Expect(unstructured.SetNestedSlice(now.Object, webhooks, "webhooks")).To(Succeed())
			patchUntilOver(ctx, now, before)
		}
	}
}

// patchUntilOver changes an object as it is now, and has it as before when the spec is over.
func patchUntilOver(ctx context.Context, now, before client.Object) {
	GinkgoHelper()
	back := now.DeepCopyObject().(client.Object)
	Expect(env.client.Patch(ctx, now, client.MergeFrom(before))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		former := before.DeepCopyObject().(client.Object)
		Expect(env.client.Patch(ctx, former, client.MergeFrom(back))).To(Succeed())
	}, NodeTimeout(time.Minute))
}

// scaleManagers stops the managers, or starts them again and waits until they are there.
func scaleManagers(ctx context.Context, replicas int32) {
	GinkgoHelper()
	for _, key := range managersOfTenants {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		Expect(env.client.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)))).To(Succeed())
	}
	for _, key := range managersOfTenants {
		Eventually(ctx, func(g Gomega) {
			deployment := &appsv1.Deployment{}
			g.Expect(env.client.Get(ctx, key, deployment)).To(Succeed())
			g.Expect(deployment.Status.ObservedGeneration).To(Equal(deployment.Generation))
			g.Expect(deployment.Status.ReadyReplicas).To(Equal(replicas))
			g.Expect(ptr.Deref(deployment.Status.TerminatingReplicas, 0)).To(BeZero())
		}).WithTimeout(creation).Should(Succeed(), "%d replicas of %s", replicas, key)
	}
}

// withoutFinalizers takes the finalizers off all objects of a namespace that have some.
func withoutFinalizers(ctx context.Context, namespace string) error {
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(env.config).ServerPreferredNamespacedResources()
	if err != nil {
		return err
	}
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return err
		}
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "patch") {
				continue
			}
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(version.WithKind(kind.Kind + "List"))
			if err := env.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return err
			}
			for i := range list.Items {
				if len(list.Items[i].Finalizers) == 0 {
					continue
				}
				object := &list.Items[i]
				object.SetGroupVersionKind(version.WithKind(kind.Kind))
				if err := env.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
		}
	}
	return nil
}
