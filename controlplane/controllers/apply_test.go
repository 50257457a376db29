package controllers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// Objects are applied in goroutines of their own.
func TestAPanicWhileAnObjectIsAppliedIsAnErrorOfTheStep(t *testing.T) {
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			panic(new(int))
		},
	})
	s := &scope{host: &Host{Client: c, Live: c, Applier: apply.New(c, c)}}
	_, err := applyAll(t.Context(), s, []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}})
	if err == nil || err.Error() != "applying an object panicked; the manager's log has the stack" {
		t.Errorf("the error is %v", err)
	}
}

func TestAPanicWhileCertificatesAreIssuedIsAnErrorOfTheStep(t *testing.T) {
	of := issue(t, "blue", "blue.example.com")
	s := &scope{
		key: of.in.Cluster, input: *of.in, keys: of.keys, controlPlane: &controlplanev1.KOKControlPlane{}, host: &Host{},
		store: &pki.Store{}, // Without a host cluster.
	}
	err := (&Reconciler{}).ensureCertificates(t.Context(), s).Err()
	if err == nil || err.Error() != "issuing certificates panicked; the manager's log has the stack" {
		t.Errorf("the error is %v", err)
	}
}

func TestAnApplyThatFailsDoesNotCutOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := errors.New("it was not applied")
		c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
				if name := object.(interface{ GetName() string }).GetName(); name == "refused" {
					return errRefused
				}
				time.Sleep(time.Second) //nolint:forbidigo // The bubble's time.
				cut = ctx.Err()
				return c.Apply(ctx, object, options...)
			},
		})
		s := &scope{host: &Host{Client: c, Live: c, Applier: apply.New(c, c)}}
		service := func(name string) client.Object {
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		}
		if _, err := applyAll(t.Context(), s, []client.Object{service("refused"), service("slow")}); !errors.Is(err, errRefused) {
			t.Errorf("the error is %v", err)
		}
		if cut != nil {
			t.Errorf("the other object: %v", cut)
		}
	})
}
