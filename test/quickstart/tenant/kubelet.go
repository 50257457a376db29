package tenant

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
)

// sharedDisk is the configuration of kubelets that share a disk with builds and with each other. By default a kubelet removes images and evicts
// pods when a share of the disk is used, however much is left.
func sharedDisk() map[string]any {
	return map[string]any{
		"imageGCHighThresholdPercent": int64(100),
		"evictionHard": map[string]any{
			"memory.available": "100Mi", "nodefs.available": "500Mi", "nodefs.inodesFree": "1%", "imagefs.available": "500Mi",
		},
	}
}

// withSharedDisk gives the kubelets of workers in manifests sharedDisk. Workers that kubeadm joins keep kubelet's defaults.
func withSharedDisk(manifests []byte) ([]byte, error) {
	objects, err := utilyaml.ToUnstructured(manifests)
	if err != nil {
		return nil, fmt.Errorf("read what clusterctl generated: %w", err)
	}
	for i := range objects {
		switch objects[i].GetKind() {
		case "KOKConfigTemplate":
			err = unstructured.SetNestedMap(objects[i].Object, sharedDisk(), "spec", "template", "spec", "kubelet", "configuration")
		case "Cluster":
			err = addKubeletVariable(&objects[i])
		}
		if err != nil {
			return nil, fmt.Errorf("set what kubelets of %s are told: %w", objects[i].GetName(), err)
		}
	}
	return utilyaml.FromUnstructured(objects)
}

// addKubeletVariable sets the variable of the class of a Cluster that has a topology.
func addKubeletVariable(cluster *unstructured.Unstructured) error {
	variables, found, err := unstructured.NestedSlice(cluster.Object, "spec", "topology", "variables")
	if err != nil || !found {
		return err
	}
	variables = append(variables, map[string]any{"name": "kubelet", "value": map[string]any{"configuration": sharedDisk()}})
	return unstructured.SetNestedSlice(cluster.Object, variables, "spec", "topology", "variables")
}
