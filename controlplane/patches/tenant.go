package patches

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rules are those of a target, by kind. Those of an addon are of the kinds that it has.
func (t Target) rules(objects []client.Object) map[string]rule {
	if t.Hosted != nil {
		return t.Hosted.rules()
	}
	rules := map[string]rule{}
	for _, object := range objects {
		rules[object.GetObjectKind().GroupVersionKind().Kind] = tenantRule(t.Image)
	}
	return rules
}

// tenantRule keeps in an object of an addon what it is found by and what fields of spec say of it. The
// rest is a person's own affair, as the tenant is.
func tenantRule(image string) rule {
	const found = "objects and pods are found by it, remove it from the patch"
	container := except(map[string]rule{"name": kept(found), "image": kept(image)})
	return except(map[string]rule{
		"apiVersion": kept(found),
		"kind":       kept(found),
		"metadata":   only(map[string]rule{"labels": marks, "annotations": marks}),
		"spec": except(map[string]rule{
			"clusterIP": kept("kubelets give this address to pods"),
			"replicas":  kept("set spec.addons.coreDNS.replicas"),
			"selector":  kept(found),
			"template": except(map[string]rule{
				"metadata": only(map[string]rule{"labels": marks, "annotations": marks}),
				"spec":     except(map[string]rule{"containers": each("name", container)}),
			}),
		}),
	})
}
