package etcdmembers

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/adoption"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

// Both the record and the Service of a member tell of it.
func TestTheClaimOfAFormerMemberIsLookedForOnce(t *testing.T) {
	const former = "blue-etcd-data-3"
	asked := 0
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	host := fake.NewClientBuilder().WithIndex(&corev1.PersistentVolumeClaim{}, metav1.ObjectNameField, byName).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			of := &client.ListOptions{}
			if of.ApplyOptions(options); of.FieldSelector != nil && of.FieldSelector.Matches(fields.Set{metav1.ObjectNameField: etcdcomponent.Claim(former)}) {
				asked++
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	of := askable()
	of.Host.Live = host
	data := controlplanev1.EtcdClusterStatus{Name: "data"}
	for i := range int32(3) {
		data.Members = append(data.Members, controlplanev1.EtcdMemberStatus{Name: statustest.PodName(names.EtcdData, i), State: controlplanev1.EtcdMemberVoter})
	}
	of.ControlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{data}
	m := &Members{Adopter: &adoption.Adopter{ControlPlane: of.ControlPlane, Cluster: of.Input.Cluster, Host: of.Host, Input: of.Input}}
	beyond, err := m.Beyond(t.Context(), map[string]string{former: "10.250.0.4"}, map[string]*corev1.Service{former: {}})
	if err != nil || len(beyond) > 0 || asked != 1 {
		t.Errorf("members beyond the spec are %v, and the claim is looked for %d times: %v", beyond, asked, err)
	}
}
