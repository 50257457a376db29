package tenant

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// edited are manifests with the control plane as Edit wants it.
func (t *Tenant) edited(manifests []byte) ([]byte, error) {
	if t.Edit == nil {
		return manifests, nil
	}
	objects, err := utilyaml.ToUnstructured(manifests)
	if err != nil {
		return nil, fmt.Errorf("read what clusterctl generated: %w", err)
	}
	edits := 0
	for i := range objects {
		if objects[i].GetKind() != "KOKControlPlane" {
			continue
		}
		controlPlane := &controlplanev1.KOKControlPlane{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[i].Object, controlPlane, true); err != nil {
			return nil, fmt.Errorf("read the KOKControlPlane that clusterctl generated: %w", err)
		}
		t.Edit(controlPlane)
		if objects[i].Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(controlPlane); err != nil {
			return nil, fmt.Errorf("write the edited KOKControlPlane: %w", err)
		}
		edits++
	}
	if edits != 1 {
		return nil, fmt.Errorf("clusterctl generated %d KOKControlPlanes from %s, not one", edits, t.Template)
	}
	return utilyaml.FromUnstructured(objects)
}
