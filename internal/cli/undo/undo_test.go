package undo

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
			// An API server answers so where a patch's test fails.
			answer := func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if err := c.Patch(ctx, object, patch, options...); err != nil {
					return apierrors.NewInvalid(schema.GroupKind{}, "", nil)
				}
				return nil
			}
			u := &undoer{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(present).WithInterceptorFuncs(interceptor.Funcs{Patch: answer}).Build()}
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

// An answer that is lost does not tell what became of the request.
func TestAnUndoWhoseAnswerIsLostPromisesNothing(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := controlplanev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		arrives bool
		want    string
	}{
		"the request arrived": {arrives: true, want: "it is not known whether the spec of KOKControlPlane team/blue was changed"},
		"it did not arrive":   {want: "nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			shown := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue", Generation: 3}}
			lose := func(ctx context.Context, c client.WithWatch, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
				if test.arrives {
					changed := &controlplanev1.KOKControlPlane{}
					if err := c.Get(ctx, client.ObjectKeyFromObject(shown), changed); err != nil {
						return err
					}
					changed.Generation++
					if err := c.Update(ctx, changed); err != nil {
						return err
					}
				}
				return context.DeadlineExceeded
			}
			u := &undoer{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(shown.DeepCopy()).
				WithInterceptorFuncs(interceptor.Funcs{Patch: lose}).Build()}
			err := u.patch(t.Context(), shown, nil)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
