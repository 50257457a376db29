package revision

import (
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// A reconcile decides from what it read at its start and from what it wrote itself.
func TestAStoreThatKnowsRevisionsSeesItsOwnWritesAndNoOthers(t *testing.T) {
	blue := client.ObjectKey{Namespace: "team", Name: "blue"}
	ofStatefulSet := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "blue-etcd-data-84c9", Labels: names.ComponentLabels(blue, names.EtcdData)}}
	host := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(ofStatefulSet).Build()
	adopt := func(store *Store, component, inputs string) {
		t.Helper()
		config := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: inputs}}
		if _, err := store.Rendering(t.Context(), blue, component, inputs, time.Time{}, func() ([]client.Object, error) {
			return []client.Object{config}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	current := func(store *Store, component string, want string) {
		t.Helper()
		for _, inputs := range []string{"first", "second", "third"} {
			is, err := store.Current(t.Context(), blue, component, time.Time{}, inputs)
			if err != nil || is != (inputs == want) {
				t.Errorf("%s of inputs %q is current: %t, %v", component, inputs, is, err)
			}
		}
	}
	other := &Store{Client: host, Live: host}
	adopt(other, names.EtcdData, "first")

	known, err := List(t.Context(), host, blue)
	if err != nil {
		t.Fatal(err)
	}
	if components := slices.Collect(maps.Keys(known)); !slices.Equal(components, []string{names.EtcdData}) || len(known[names.EtcdData]) != 1 {
		t.Fatalf("known are %v of %v", len(known[names.EtcdData]), components)
	}
	store := &Store{Client: host, Live: host, Known: known}
	adopt(other, names.EtcdEvents, "second")
	current(store, names.EtcdEvents, "")

	adopt(store, names.EtcdData, "second")
	current(store, names.EtcdData, "second")
	superseded, err := store.Superseded(t.Context(), blue, names.EtcdData)
	if err != nil || len(superseded) != 1 || superseded[0].Name != "first" {
		t.Errorf("superseded are %v, %v", superseded, err)
	}
	adopt(store, names.EtcdData, "third")
	current(store, names.EtcdData, "third")
	if len(known[names.EtcdData]) != 1 {
		t.Error("what was read has changed")
	}

	adopt(other, names.EtcdData, "first")
	stored, err := store.Kept(t.Context(), blue, names.EtcdData)
	if err != nil || len(stored) != 1 || stored[0].GetName() != "first" {
		t.Errorf("kept are %v, %v: not the newest", stored, err)
	}
}
