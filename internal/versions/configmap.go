package versions

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

const (
	// ConfigMapName is the name of the ConfigMap in the control plane provider's namespace that holds the
	// table in force in place of the one that is built in. People make it, and no release of the provider
	// has it: clusterctl would delete it with the release.
	ConfigMapName = "kok-kubernetes-versions"
	// ConfigMapKey is its key with the table, in the form of versions.yaml.
	ConfigMapKey = "versions.yaml"
)

// FromConfigMap returns the table in a ConfigMap, all of it: nothing is added from the one that is built in.
func FromConfigMap(configMap *corev1.ConfigMap) (*Table, error) {
	data, ok := configMap.Data[ConfigMapKey]
	if !ok {
		return nil, fmt.Errorf("data has no key %s", ConfigMapKey)
	}
	table, err := Load([]byte(data))
	if err != nil {
		return nil, fmt.Errorf("data[%s]: %w", ConfigMapKey, err)
	}
	return table, nil
}
