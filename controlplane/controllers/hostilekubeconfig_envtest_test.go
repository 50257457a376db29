//go:build envtest

package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The bootstrap manager connects by the kubeconfig in the Secret once the control plane is initialized. Cluster API's core does not wait for
// that: see TestFinding1TheWebhookIsWhatKeepsTheTokenOfClusterAPIsCore.
func TestFinding1AControlPlaneIsNotInitializedBesideAnUnsafeKubeconfig(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	key := tt.inNamespace("blue-kubeconfig")
	foreign := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Data:       map[string][]byte{"value": []byte("users: [{name: u, user: {tokenFile: /token}}]")},
	}
	// It was there before the webhook that refuses it.
	asked, err := environment.WithoutWebhooks(t.Context(), key.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := environment.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	if err := asked(t.Context()); err != nil {
		t.Fatal(err)
	}
	initialized := func() bool { return ptr.Deref(tt.controlPlane().Status.Initialization.ControlPlaneInitialized, false) }
	tt.settle()
	if initialized() {
		t.Error("it is initialized")
	}
	if reasons := tt.reasons(); !strings.Contains(reasons, "tokenFile is refused") || !strings.Contains(reasons, "delete the Secret") {
		t.Errorf("its conditions say %s", reasons)
	}
	if err := environment.Client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	tt.settle()
	if !initialized() {
		t.Errorf("without it, its conditions say %s", tt.reasons())
	}
}
