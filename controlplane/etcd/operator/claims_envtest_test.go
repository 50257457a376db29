//go:build envtest

package operator

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/envtest/plain"
)

var (
	environment = &envtest.Environment{}
	live        client.WithWatch
)

func TestMain(m *testing.M) {
	plain.Main(m, environment, func(config *rest.Config) (err error) {
		live, err = client.NewWithWatch(config, client.Options{Scheme: clientgoscheme.Scheme})
		return err
	})
}

// The API server selects claims by their names, whatever their labels are.
func TestAClaimThatLostItsLabelsIsFoundByItsName(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := live.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	tenant := client.ObjectKey{Namespace: namespace.Name, Name: "blue"}
	for i, labels := range []map[string]string{names.ComponentLabels(tenant, names.EtcdData), nil, nil} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: etcdcomponent.Claim(podName(names.EtcdData, int32(i))), Labels: labels}}
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		if err := live.Create(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	claims, err := VolumeClaims(t.Context(), live, tenant, names.EtcdData, []string{"blue-etcd-data-0", "blue-etcd-data-1", "blue-etcd-data-3"})
	var found []string
	for i := range claims {
		found = append(found, MemberOf(&claims[i]))
	}
	if want := []string{"blue-etcd-data-0", "blue-etcd-data-1"}; err != nil || !slices.Equal(found, want) {
		t.Errorf("volumes have %v, want %v: %v", found, want, err)
	}
}
