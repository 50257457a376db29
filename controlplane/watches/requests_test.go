package watches

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestWhatWakesTheController(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := controlplanev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	controlPlane := func(namespace, name, cluster string) *controlplanev1.KOKControlPlane {
		return &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}}
	}
	f := &Finder{Management: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		controlPlane("team", "blue-control-plane", "blue"), controlPlane("team", "green-control-plane", "green"), controlPlane("other", "x", "blue"),
	).Build()}
	labels := names.ComponentLabels(client.ObjectKey{Namespace: "team", Name: "blue"}, names.EtcdData)
	for name, test := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"an object of a tenant":              {labels, "team/blue-control-plane"},
		"an object of another manager":       {map[string]string{names.ClusterNameLabel: "blue", names.ClusterNamespaceLabel: "team"}, ""},
		"an object without a tenant":         {map[string]string{names.ManagedByLabel: names.ManagedBy}, ""},
		"an object of a tenant that is gone": {names.Labels(client.ObjectKey{Namespace: "team", Name: "red"}), ""},
	} {
		// Its own namespace does not count: with another host cluster it may be a different one.
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "a", Labels: test.labels}}
		got := ""
		for _, request := range f.OfHostObject(t.Context(), object) {
			got += request.String()
		}
		if got != test.want {
			t.Errorf("%s wakes %q", name, got)
		}
	}

	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: "blue-control-plane"}
	if got := OfCluster(t.Context(), cluster); len(got) != 1 || got[0].String() != "team/blue-control-plane" {
		t.Errorf("a Cluster wakes %v", got)
	}
	cluster.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane"
	if got := OfCluster(t.Context(), cluster); len(got) != 0 {
		t.Errorf("a Cluster of another provider wakes %v", got)
	}
}
