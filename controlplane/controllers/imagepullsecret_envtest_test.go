//go:build envtest

package controllers

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
)

func TestImagesArePulledWithASecret(t *testing.T) {
	tt := newRollingTenantTest(t, lasting)
	tt.settle()
	dns := &appsv1.Deployment{}
	inTenant := func(name string, object client.Object) error {
		return environment.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, object)
	}
	if err := inTenant("coredns", dns); err != nil {
		t.Fatal(err)
	}
	before := content(t, dns)
	name := func(secret string) {
		t.Helper()
		edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.ImagePullSecret = secret })
		tt.settle()
	}
	says := func(want string) {
		t.Helper()
		installed := conditions.Get(tt.controlPlane(), conditionsv1.AddonsInstalledCondition)
		if installed.Status == metav1.ConditionTrue || !strings.Contains(installed.Message, want) {
			t.Errorf("it does not say %q: %v", want, installed)
		}
	}
	give := func(kind corev1.SecretType, key, password string) *corev1.Secret {
		t.Helper()
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "registry", Labels: map[string]string{giveaway.Label: giveaway.Allowed}}, Type: kind,
			Data: map[string][]byte{key: []byte(`{"auths":{"registry.example.com":{"auth":"` + password + `"}}}`)},
		}
		if err := client.IgnoreNotFound(environment.Client.Delete(t.Context(), secret.DeepCopy())); err != nil {
			t.Fatal(err)
		}
		if err := environment.Client.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		tt.settle()
		return secret
	}

	name("registry")
	says("names the Secret registry, which is not in namespace " + tt.key.Namespace + ": create it there")
	give(corev1.SecretTypeOpaque, corev1.DockerConfigJsonKey, "b25l")
	says("names the Secret registry, which is of type Opaque: make it anew with type kubernetes.io/dockerconfigjson")
	for _, password := range []string{"b25l", "dHdv"} {
		secret, copied := give(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, password), &corev1.Secret{}
		if err := inTenant("coredns-image-pull", copied); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(copied.Data[corev1.DockerConfigJsonKey], secret.Data[corev1.DockerConfigJsonKey]) || copied.Type != secret.Type {
			t.Errorf("the tenant has another Secret, of type %s", copied.Type)
		}
	}
	if err := inTenant("coredns", dns); err != nil {
		t.Fatal(err)
	}
	for pod, secrets := range map[string][]corev1.LocalObjectReference{
		"coredns-image-pull": dns.Spec.Template.Spec.ImagePullSecrets, "registry": tt.scheduler().Spec.Template.Spec.ImagePullSecrets,
	} {
		if !slices.Equal(secrets, []corev1.LocalObjectReference{{Name: pod}}) {
			t.Errorf("the Secrets are %v, and not %s", secrets, pod)
		}
	}
	secret := &corev1.Secret{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("registry"), secret); err != nil {
		t.Fatal(err)
	}
	if _, ok := secret.Labels[clusterctlv1.ClusterctlMoveLabel]; !ok {
		t.Error("clusterctl move would leave the Secret behind")
	}
	tt.program.gate.take()
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if writes := tt.program.gate.takeWrites(); len(writes) > 0 {
		t.Errorf("settled, with a Secret for images, it wrote %v", writes)
	}

	name("")
	if err := inTenant("coredns", dns); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, content(t, dns)); diff != "" {
		t.Errorf("without the Secret coredns is not as before (-before +after):\n%s", diff)
	}
	if err := inTenant("coredns-image-pull", &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the copy in the tenant is there still: %v", err)
	}
}

// Finding 4, by the third way: who may write a KOKControlPlane named a Secret of the namespace, and its tenant's administrators read the copy.
func TestFinding4ASecretForImagesReachesATenantOnceItIsMarked(t *testing.T) {
	const ofOthers = `{"auths":{"registry.example.com":{"auth":"SECRETOFOTHERS"}}}`
	tt := newRollingTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		c.Spec.ImagePullSecret = "registry"
	})
	registry := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "registry", Labels: map[string]string{giveaway.Label: "no"}},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(ofOthers)},
	}
	if err := environment.Client.Create(t.Context(), registry); err != nil {
		t.Fatal(err)
	}
	copies := func() (names []string) {
		secrets := &corev1.SecretList{}
		if err := environment.Client.List(t.Context(), secrets); err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets.Items {
			for _, content := range secret.Data {
				if secret.UID != registry.UID && bytes.Contains(content, []byte("SECRETOFOTHERS")) {
					names = append(names, client.ObjectKeyFromObject(&secret).String())
				}
			}
		}
		return names
	}
	tt.settle()
	installed := conditions.Get(tt.controlPlane(), conditionsv1.AddonsInstalledCondition)
	if installed.Status == metav1.ConditionTrue || !strings.Contains(installed.Message, "spec.imagePullSecret: Secret registry lacks the label kok.cluster.x-k8s.io/for-tenants") {
		t.Errorf("it is not told of: %v", installed)
	}
	if found := copies(); len(found) > 0 {
		t.Errorf("what nobody marked for it is in %v", found)
	}
	registry.Labels[giveaway.Label] = giveaway.Allowed
	if err := environment.Client.Update(t.Context(), registry); err != nil {
		t.Fatal(err)
	}
	tt.settle()
	if found := copies(); !slices.Contains(found, "kube-system/coredns-image-pull") {
		t.Errorf("once it is marked, it is in %v", found)
	}
}
