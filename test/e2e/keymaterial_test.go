//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// purposes are the pieces of key material, each a Secret.
var purposes = []secret.Purpose{
	secret.ClusterCA, secret.EtcdCA, pki.EtcdEventsPurpose, secret.FrontProxyCA, secret.ServiceAccount, pki.EncryptionPurpose,
}

// keyMaterial loses the keys of tenant a.
func (j *journey) keyMaterial() {
	It("is never made anew: lost in both places, it waits for a backup", func(ctx SpecContext) {
		before := j.a.snapshot(ctx)
		backup := j.keySecrets(ctx)
		By("deleting both copies, while nobody can restore one from the other")
		setPaused(ctx, j.a, true)
		for _, copied := range backup {
			Expect(env.client.Delete(ctx, copied.DeepCopy())).To(Succeed())
		}
		setPaused(ctx, j.a, false)
		Eventually(ctx, func(g Gomega) {
			condition := j.certificates(ctx)
			g.Expect(condition.Status).To(Equal(metav1.ConditionFalse))
			g.Expect(condition.Reason).To(Equal(conditionsv1.KeyMaterialLostReason))
			for _, lost := range backup {
				g.Expect(condition.Message).To(ContainSubstring(lost.Name))
			}
		}).Should(Succeed())
		env.log.Print("%s: %s", conditionsv1.CertificatesAvailableCondition, j.certificates(ctx).Message)
		Expect(conditions.IsTrue(j.a.controlPlane(ctx), conditionsv1.AvailableCondition)).To(BeFalse())
		Expect(j.a.snapshot(ctx)).To(Equal(before), "pods are untouched")
		j.expectWritten(ctx)

		By("restoring the Secrets from a backup")
		for _, copied := range backup {
			if copied.Name != names.KeyMaterial(j.a.Name) {
				j.restore(ctx, copied)
			}
		}
		j.a.expectHealthy(ctx)
		j.expectRestored(ctx, backup)
		Expect(j.a.snapshot(ctx)).To(Equal(before), "pods are untouched")
	})

	It("is not replaced by another key that somebody puts in its place", func(ctx SpecContext) {
		before := j.a.snapshot(ctx)
		backup := j.keySecrets(ctx)
		i := slices.IndexFunc(backup, func(s corev1.Secret) bool { return s.Name == secret.Name(j.a.Name, secret.ClusterCA) })
		other := j.b.secret(ctx, secret.Name(j.b.Name, secret.ClusterCA))
		replaced := backup[i].DeepCopy()
		replaced.Data = other.Data
		Expect(env.client.Update(ctx, replaced)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			condition := j.certificates(ctx)
			g.Expect(condition.Status).To(Equal(metav1.ConditionFalse))
			g.Expect(condition.Reason).To(Equal(conditionsv1.InvalidKeyMaterialReason))
			g.Expect(condition.Message).To(And(ContainSubstring(replaced.Name), ContainSubstring("delete")))
		}).Should(Succeed())
		env.log.Print("%s: %s", conditionsv1.CertificatesAvailableCondition, j.certificates(ctx).Message)
		Expect(j.a.snapshot(ctx)).To(Equal(before), "pods are untouched")

		By("doing what the condition says: deleting it")
		Expect(env.client.Delete(ctx, replaced)).To(Succeed())
		j.a.expectHealthy(ctx)
		j.expectRestored(ctx, backup)
		Expect(j.a.snapshot(ctx)).To(Equal(before), "pods are untouched")
	})
}

func (j *journey) certificates(ctx context.Context) *metav1.Condition {
	GinkgoHelper()
	condition := conditions.Get(j.a.controlPlane(ctx), conditionsv1.CertificatesAvailableCondition)
	Expect(condition).NotTo(BeNil())
	return condition
}

// keySecrets are both copies of all key material.
func (j *journey) keySecrets(ctx context.Context) []corev1.Secret {
	GinkgoHelper()
	list := []corev1.Secret{*j.a.secret(ctx, names.KeyMaterial(j.a.Name))}
	for _, purpose := range purposes {
		list = append(list, *j.a.secret(ctx, secret.Name(j.a.Name, purpose)))
	}
	return list
}

// restore makes a Secret as a backup has it: without what the API server sets.
func (j *journey) restore(ctx context.Context, copied corev1.Secret) {
	GinkgoHelper()
	Expect(env.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: copied.Namespace, Name: copied.Name, Labels: copied.Labels},
		Type:       copied.Type, Data: copied.Data,
	})).To(Succeed())
}

// expectRestored compares byte for byte; a difference is told without the bytes.
func (j *journey) expectRestored(ctx context.Context, backup []corev1.Secret) {
	GinkgoHelper()
	for _, want := range backup {
		have := j.a.secret(ctx, want.Name)
		var differ []string
		for name := range want.Data {
			if string(have.Data[name]) != string(want.Data[name]) {
				differ = append(differ, name)
			}
		}
		Expect(differ).To(BeEmpty(), "data of Secret %s", want.Name)
		Expect(have.Data).To(HaveLen(len(want.Data)), "data of Secret %s", want.Name)
	}
}

// setPaused pauses a Cluster, or ends that, and waits until the controller knows.
func setPaused(ctx context.Context, t *tenant, paused bool) {
	GinkgoHelper()
	patch(ctx, t.clusterObject(), fmt.Sprintf(`{"spec":{"paused":%t}}`, paused))
	expectPaused(ctx, t, paused)
}

func expectPaused(ctx context.Context, t *tenant, paused bool) {
	GinkgoHelper()
	want := metav1.ConditionFalse
	if paused {
		want = metav1.ConditionTrue
	}
	Eventually(ctx, func() metav1.ConditionStatus {
		controlPlane := &controlplanev1.KOKControlPlane{}
		if err := env.client.Get(ctx, t.ObjectKey, controlPlane); err != nil {
			return metav1.ConditionUnknown
		}
		if condition := conditions.Get(controlPlane, clusterv1.PausedCondition); condition != nil {
			return condition.Status
		}
		return metav1.ConditionUnknown
	}).Should(Equal(want), "condition Paused of %s", t.ObjectKey)
}
