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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

var _ = Describe("A host cluster that is lost", Label(full, etcdBackups), func() {
	It("gives its place to another one, where the tenant comes back with its workers, from the bucket and a person's key alone", Label("drill"), func(ctx SpecContext) {
		b := newBackedUp(ctx, "drill")
		b.workers = 1
		b.variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
		removeWithHosts(b.tenant)
		b.createWithWorkers(ctx, 0)
		b.fill(ctx)
		b.expectBackedUp(ctx, creation+backupEvery)
		taken := b.take(ctx)
		before := contents(ctx, b.etcd(ctx, names.EtcdData), taken.Status.Revision)
		machine := b.machines(ctx)[0]
		worker, node, block := b.worker(ctx), machine.Status.NodeRef.Name, b.controlPlane(ctx).Spec.Hosting.Ports.First
		runs := b.onWorker(ctx, worker, node)

		By("nothing is left of it but the store and the workers")
		b.lose(ctx)

		By("another one takes its place, with the addresses of the former")
		began := time.Now()
		name := ""
		b.workers = 0
		b.prepare = func(ctx context.Context) {
			b.writeCredentials(ctx)
			Expect(kok(ctx, "etcd", "restore", b.Name, "--namespace", b.Namespace, "--identity-file", b.identity, "--latest",
				"--s3-endpoint", b.store.Endpoint, "--s3-bucket", bucket, "--s3-prefix", b.Namespace+"/"+b.Name, "--s3-credentials-secret", "s3", "--s3-ca-secret", "s3-ca")).To(Succeed())
			list := &controlplanev1.KOKEtcdSnapshotList{}
			listAll(ctx, list, client.InNamespace(b.Namespace))
			Expect(list.Items).To(HaveLen(1))
			name = list.Items[0].Name
		}
		b.edit = func(c *controlplanev1.KOKControlPlane) {
			b.backUp(c)
			c.Spec.Etcd.Backup.Store = b.bucketOf("second")
			c.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: name}
			c.Spec.Hosting.Ports.First = block
		}
		b.create(ctx)
		Eventually(ctx, func(g Gomega) {
			found, err := b.api.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			i := slices.IndexFunc(found.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
			g.Expect(found.Status.Conditions[i].Status).To(Equal(corev1.ConditionTrue))
			g.Expect(found.Status.Conditions[i].LastHeartbeatTime.Time).To(BeTemporally(">", began))
		}).WithTimeout(join).Should(Succeed(), "the worker reports to the restored tenant")
		figure("drill_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s until the worker is ready")
		Expect(b.onWorker(ctx, worker, node)).To(Equal(runs), "the worker, its kubelet and its pods")

		etcd := b.etcd(ctx, names.EtcdData)
		now := contents(ctx, etcd, firstRevision(ctx, etcd, taken.Status.Revision+revisionsAhead))
		Expect(differences(before, now)).To(BeEmpty(), "keys that are not as they were in the snapshot, of %d", len(before))
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
	list := &admissionv1.ValidatingWebhookConfigurationList{}
	Expect(env.client.List(ctx, list)).To(Succeed())
	mutating := &admissionv1.MutatingWebhookConfigurationList{}
	Expect(env.client.List(ctx, mutating)).To(Succeed())
	for i := range list.Items {
		before := list.Items[i].DeepCopy()
		for j := range list.Items[i].Webhooks {
			list.Items[i].Webhooks[j].FailurePolicy = ptr.To(admissionv1.Ignore)
		}
		patchUntilOver(ctx, &list.Items[i], before)
	}
	for i := range mutating.Items {
		before := mutating.Items[i].DeepCopy()
		for j := range mutating.Items[i].Webhooks {
			mutating.Items[i].Webhooks[j].FailurePolicy = ptr.To(admissionv1.Ignore)
		}
		patchUntilOver(ctx, &mutating.Items[i], before)
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
