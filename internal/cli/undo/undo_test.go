package undo

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	specs "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/history"
)

// Who agreed to a difference agreed to that one.
func TestAnEditMeanwhileIsNotUndone(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := controlplanev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		edited bool
		want   string
	}{
		"nobody edited it":   {want: "v1.36.3"},
		"somebody edited it": {edited: true, want: "v1.36.4"},
	} {
		t.Run(name, func(t *testing.T) {
			shown := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue", Generation: 3}}
			shown.Spec.Version = "v1.36.4"
			present := shown.DeepCopy()
			if test.edited {
				present.Generation, present.Spec.ImageRepository = 4, "registry.example.com"
			}
			u := &undoer{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(present).Build()}
			operations, err := specs.WayBack(&shown.Spec, &controlplanev1.KOKControlPlaneSpec{Version: "v1.36.3"})
			if err != nil {
				t.Fatal(err)
			}
			err = u.patch(t.Context(), shown, operations)
			if refused := err != nil && strings.Contains(err.Error(), "somebody edited the spec of KOKControlPlane team/blue meanwhile"); refused != test.edited || err != nil && !refused {
				t.Errorf("it ended with %v", err)
			}
			now := &controlplanev1.KOKControlPlane{}
			if err := u.client.Get(t.Context(), client.ObjectKeyFromObject(shown), now); err != nil {
				t.Fatal(err)
			}
			if now.Spec.Version != test.want {
				t.Errorf("the version is %s, want %s", now.Spec.Version, test.want)
			}
		})
	}
}
