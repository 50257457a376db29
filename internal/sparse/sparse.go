// Package sparse writes typed objects without the fields that were never set. Programs of an older
// version may not know them, and people who read the result need not see them.
package sparse

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// YAML is value as YAML, without fields that are equal in zero, the zero value of the same type.
func YAML(value, zero any) ([]byte, error) {
	set, err := runtime.DefaultUnstructuredConverter.ToUnstructured(value)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", value, err)
	}
	unset, err := runtime.DefaultUnstructuredConverter.ToUnstructured(zero)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", zero, err)
	}
	without(set, unset)
	return yaml.Marshal(set)
}

// without removes from set the fields that are equal in unset.
func without(set, unset map[string]any) {
	for key, common := range unset {
		inner, ok := set[key].(map[string]any)
		innerUnset, same := common.(map[string]any)
		if ok && same {
			without(inner, innerUnset)
			if len(inner) == 0 {
				delete(set, key)
			}
			continue
		}
		if reflect.DeepEqual(set[key], common) {
			delete(set, key)
		}
	}
}
