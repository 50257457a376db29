//go:build envtest

package envtest

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	kubeconfigWithAFile  = `{apiVersion: v1, kind: Config, users: [{name: u, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}]}`
	kubeconfigWithAToken = `{apiVersion: v1, kind: Config, users: [{name: u, user: {token: a}}]}`
)

func kubeconfigSecret(namespace, name, content string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{"value": content},
	}
}

func TestFinding1AKubeconfigThatReadsAFileIsRefused(t *testing.T) {
	namespace := newNamespace(t)
	const refusal = `data[value]: Invalid value: tokenFile is refused, it would read a file of the manager: use token`
	for name, secret := range map[string]*corev1.Secret{
		"of a Cluster":            kubeconfigSecret(namespace, "blue-kubeconfig", kubeconfigWithAFile),
		"of a Cluster, by labels": labelled(namespace, "red", kubeconfigWithAFile),
	} {
		t.Run(name, func(t *testing.T) { expectRefusal(t, environment.Client.Create(t.Context(), secret), refusal) })
	}
	t.Run("by a change", func(t *testing.T) {
		secret := kubeconfigSecret(namespace, "green-kubeconfig", kubeconfigWithAToken)
		g := NewWithT(t)
		g.Expect(environment.Client.Create(t.Context(), secret)).To(Succeed())
		secret.Data["value"] = []byte(kubeconfigWithAFile)
		expectRefusal(t, environment.Client.Update(t.Context(), secret), refusal)
	})
}

func labelled(namespace, cluster, content string) *corev1.Secret {
	secret := kubeconfig.GenerateSecretWithOwner(client.ObjectKey{Namespace: namespace, Name: cluster}, []byte(content), metav1.OwnerReference{})
	secret.OwnerReferences = nil // There is no Cluster.
	return secret
}

func TestOtherSecretsPass(t *testing.T) {
	namespace := newNamespace(t)
	for name, secret := range map[string]*corev1.Secret{
		"a kubeconfig of another provider":   kubeconfigSecret(namespace, "blue-kubeconfig", kubeconfigWithAToken),
		"a name that Cluster API never asks": kubeconfigSecret(namespace, "blue-kubeconfig-2", kubeconfigWithAFile),
		"what is no kubeconfig":              kubeconfigSecret(namespace, "red-kubeconfig", "#cloud-config"),
		"one without data":                   {ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "green-kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(environment.Client.Create(t.Context(), secret)).To(Succeed()) })
	}
}

func TestAKubeconfigThatWasThereBeforeCanBeLabelled(t *testing.T) {
	g := NewWithT(t)
	secret := kubeconfigSecret(newNamespace(t), "blue-kubeconfig", kubeconfigWithAFile)
	without, err := environment.WithoutWebhooks(t.Context(), secret.Namespace)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(environment.Client.Create(t.Context(), secret)).To(Succeed())
	g.Expect(without(t.Context())).To(Succeed())
	g.Eventually(func() bool {
		return apierrors.IsInvalid(environment.Client.Create(t.Context(), kubeconfigSecret(secret.Namespace, "red-kubeconfig", kubeconfigWithAFile), client.DryRunAll))
	}).Should(BeTrue(), "the webhooks are back")
	secret.Labels = map[string]string{"a": "b"}
	g.Expect(environment.Client.Update(t.Context(), secret)).To(Succeed())
	g.Expect(environment.Client.Delete(t.Context(), secret)).To(Succeed())
}
