package templates

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
)

// A person who sets no size is not told at each edit that volumes are too small.
func TestVolumesOfTemplatesHaveRoomForTheirDatabases(t *testing.T) {
	quota := defaultQuota(t)
	expectRoom := func(t *testing.T, where string, size *resource.Quantity) {
		t.Helper()
		if over := space.OverQuota(quota, size, where); size == nil || over != "" {
			t.Errorf("size %v: %s", size, over)
		}
	}
	files, err := filepath.Glob("cluster-template*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	flat := 0
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			for _, object := range render(t, file) {
				if controlPlane, ok := object.(*controlplanev1.KOKControlPlane); ok {
					flat++
					expectRoom(t, "data", controlPlane.Spec.Etcd.Data.Storage.Size)
					expectRoom(t, "events", controlPlane.Spec.Etcd.Events.Storage.Size)
				}
			}
		})
	}
	if flat < 3 {
		t.Errorf("only %d templates have a control plane", flat)
	}
	variables := one[*clusterv1.ClusterClass](t, render(t, class)).Spec.Variables
	for _, name := range []string{"etcdStorageSize", "etcdEventsStorageSize"} {
		i := slices.IndexFunc(variables, func(v clusterv1.ClusterClassVariable) bool { return v.Name == name })
		expectRoom(t, name, quantity(t, variables[i].Schema.OpenAPIV3Schema.Default.Raw))
	}
}

// defaultQuota is the quota of an etcd of which a person does not say one.
func defaultQuota(t *testing.T) *resource.Quantity {
	t.Helper()
	schema := fieldSchema(t, definitions["KOKControlPlaneTemplate"], "/spec/template/spec/etcd/events/quotaBackendSize")
	return quantity(t, schema.Default.Raw)
}

func quantity(t *testing.T, raw []byte) *resource.Quantity {
	t.Helper()
	size := &resource.Quantity{}
	if err := json.Unmarshal(raw, size); err != nil {
		t.Fatal(err)
	}
	return size
}
