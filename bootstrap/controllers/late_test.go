package controllers

import (
	"context"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// The event of the Secret comes before that of the config, whose status is written later.
func TestWhatWasMadeIsNotMadeAgainWhenTheCacheIsLate(t *testing.T) {
	f := newFixture(t, ready()...)
	request := ctrl.Request{NamespacedName: key}
	var seen *bootstrapv1.KOKConfig
	for range 2 { // The first one only writes the Paused condition.
		seen = f.config()
		if _, err := f.reconciler.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	made, requests := f.config(), f.tenantRequests
	f.expectCondition(bootstrapv1.DataSecretAvailableCondition, "True", bootstrapv1.DataSecretAvailableReason)

	upToDate := f.reconciler.Client
	f.reconciler.Client = interceptor.NewClient(f.management, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, name client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if config, ok := object.(*bootstrapv1.KOKConfig); ok {
				seen.DeepCopyInto(config)
				return nil
			}
			return upToDate.Get(ctx, name, object, options...)
		},
	})
	if _, err := f.reconciler.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if asked := f.tenantRequests - requests; asked > 0 || f.config().ResourceVersion != made.ResourceVersion {
		t.Errorf("the tenant got %d requests, and status went from version %s to %s", asked, made.ResourceVersion, f.config().ResourceVersion)
	}
}
