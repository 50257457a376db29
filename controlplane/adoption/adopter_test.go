package adoption

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

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
)

var errRefused = errors.New("connection refused")

func adopterIn(host client.Client) *Adopter {
	return &Adopter{Host: &hostclusters.Host{Client: host, Live: host, Applier: apply.New(host, host)}, Repaired: func(*apply.Repair) {}}
}

// Objects are applied in goroutines of their own.
func TestAPanicWhileAnObjectIsAppliedIsAnErrorOfTheStep(t *testing.T) {
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			panic(new(int))
		},
	})
	a := adopterIn(c)
	_, err := a.ApplyAll(t.Context(), []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}})
	if err == nil || err.Error() != "applying an object panicked; the manager's log has the stack" {
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
		a := adopterIn(c)
		service := func(name string) client.Object {
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		}
		if _, err := a.ApplyAll(t.Context(), []client.Object{service("refused"), service("slow")}); !errors.Is(err, errRefused) {
			t.Errorf("the error is %v", err)
		}
		if cut != nil {
			t.Errorf("the other object: %v", cut)
		}
	})
}
