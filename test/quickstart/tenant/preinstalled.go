package tenant

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Preinstalled are workers of a tenant that have their software already, beside those that the template makes.
type Preinstalled struct {
	// Count is how many of the tenant's workers they are.
	Count int
	// WithoutLabel is a label that no host of theirs has.
	WithoutLabel string
}

// workerKinds are those of the template's objects that are of workers.
var workerKinds = map[string]func(*unstructured.Unstructured, Preinstalled) error{
	"MachineDeployment": func(o *unstructured.Unstructured, p Preinstalled) error {
		return unstructured.SetNestedField(o.Object, int64(p.Count), "spec", "replicas")
	},
	"KOKConfigTemplate": func(o *unstructured.Unstructured, _ Preinstalled) error {
		return unstructured.SetNestedMap(o.Object, map[string]any{"software": map[string]any{"mode": "Preinstalled"}}, "spec", "template", "spec")
	},
	"IDCMachineTemplate": func(o *unstructured.Unstructured, p Preinstalled) error {
		without := map[string]any{"key": p.WithoutLabel, "operator": "DoesNotExist"}
		return unstructured.SetNestedMap(o.Object, map[string]any{"matchExpressions": []any{without}}, "spec", "template", "spec", "hostSelector")
	},
	"MachineHealthCheck": func(*unstructured.Unstructured, Preinstalled) error { return nil },
}

// withPreinstalled are the objects of a template with more workers: a copy of each object of workers, under another name.
func (t *Tenant) withPreinstalled(objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	from, to := t.Key.Name+"-workers", t.Key.Name+"-preinstalled"
	copies := 0
	for i := range objects {
		change := workerKinds[objects[i].GetKind()]
		if change == nil || objects[i].GetName() != from {
			continue
		}
		another := unstructured.Unstructured{Object: renamed(objects[i].DeepCopy().Object, from, to).(map[string]any)}
		if err := change(&another, t.Preinstalled); err != nil {
			return nil, fmt.Errorf("make %s %s of what clusterctl generated: %w", another.GetKind(), to, err)
		}
		objects = append(objects, another)
		copies++
	}
	if copies != len(workerKinds) {
		return nil, fmt.Errorf("clusterctl generated %d objects of workers from %s, not %d", copies, t.Template, len(workerKinds))
	}
	return objects, nil
}

// renamed has another name wherever one name was.
func renamed(value any, from, to string) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = renamed(value[key], from, to)
		}
	case []any:
		for i := range value {
			value[i] = renamed(value[i], from, to)
		}
	case string:
		if value == from {
			return to
		}
	}
	return value
}
