package deletion

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestWhoseTenantIsDeleted(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	controlPlane := func(name string, owner string, labels map[string]string) *controlplanev1.KOKControlPlane {
		c := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), Labels: labels}}
		if owner != "" {
			c.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "1"},
				{APIVersion: clusterv1.GroupVersion.String(), Kind: clusterv1.ClusterKind, Name: owner, UID: "2"},
			}
		}
		return c
	}
	cluster := func(name, reference string) *clusterv1.Cluster {
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: reference}
		return c
	}
	blue := map[string]string{clusterv1.ClusterNameLabel: "blue"}

	for name, test := range map[string]struct {
		cluster *clusterv1.Cluster
		deleted *controlplanev1.KOKControlPlane
		present []client.Object
		want    string
	}{
		"its Cluster names it":                          {cluster: cluster("blue", "cp"), deleted: controlPlane("cp", "blue", blue), want: "blue"},
		"its Cluster names another":                     {cluster: cluster("blue", "cp"), deleted: controlPlane("copy", "blue", blue)},
		"its Cluster is gone, its reference stays":      {deleted: controlPlane("cp", "blue", nil), want: "blue"},
		"its Cluster is gone, only the label is left":   {deleted: controlPlane("cp", "", blue), want: "blue"},
		"it never had a Cluster":                        {deleted: controlPlane("cp", "", nil)},
		"it never had a Cluster, one has its name":      {deleted: controlPlane("blue", "", nil), present: []client.Object{cluster("blue", "cp")}},
		"the Cluster is there for somebody else":        {deleted: controlPlane("copy", "", blue), present: []client.Object{cluster("blue", "cp")}},
		"the Cluster is gone, another keeps the tenant": {deleted: controlPlane("copy", "", blue), present: []client.Object{controlPlane("cp", "", blue)}},
		"the Cluster is gone, one of another is there":  {deleted: controlPlane("cp", "", blue), present: []client.Object{controlPlane("red", "", map[string]string{clusterv1.ClusterNameLabel: "red"})}, want: "blue"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(test.present, test.deleted)...).Build()
			d := &Deleter{Reader: c}
			tenant, ok, err := d.tenantToDelete(t.Context(), test.cluster, test.deleted)
			if err != nil {
				t.Fatal(err)
			}
			if ok != (test.want != "") || ok && tenant.Name != test.want {
				t.Errorf("tenant %s, %t; want %q", tenant, ok, test.want)
			}
		})
	}
}
