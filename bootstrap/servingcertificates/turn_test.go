package servingcertificates

import (
	"context"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

// A tenant's administrator makes requests faster than they are decided on: other tenants, and what is decided for this one,
// must not wait until the last of them.
func TestATenantWithManyRequestsHasOneTurnAfterTheOther(t *testing.T) {
	const turns = 3
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, clusterv1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	made := request(t, asked())
	var many []client.Object
	for i := range (turns-1)*requestsATurn + 1 {
		one := made.DeepCopy()
		one.Name = fmt.Sprintf("request-%d", i)
		many = append(many, one)
	}
	decided := 0
	tenant := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(many...).Build(), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, object client.Object, _ ...client.SubResourceUpdateOption) error {
			decided++
			return c.Status().Update(ctx, object)
		},
	})
	blue := client.ObjectKey{Namespace: "team", Name: "blue"}
	r := &Reconciler{
		Client:  fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster(func(*clusterv1.Cluster) {}), machine(func(*clusterv1.Machine) {})).Build(),
		Tenants: clustercache.NewFakeClusterCache(tenant, blue, "serving-certificates"), Guard: (&tenantapi.Guards{}).Of,
	}
	for turn := range turns {
		before, last := decided, turn == turns-1
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: blue})
		if err != nil {
			t.Fatal(err)
		}
		if took := decided - before; took > requestsATurn || (result.RequeueAfter > 0) == last {
			t.Errorf("turn %d decided on %d requests, and the next one is after %s", turn+1, took, result.RequeueAfter)
		}
	}
	left := &certificatesv1.CertificateSigningRequestList{}
	if err := tenant.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	for i := range left.Items {
		if Pending(&left.Items[i]) {
			t.Errorf("%s was not decided on", left.Items[i].Name)
		}
	}
}
