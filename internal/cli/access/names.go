package access

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxNames is how many names a completion offers.
const maxNames = 500

func (c *Cluster) names(ctx context.Context, list client.ObjectList, namespaced bool) ([]string, error) {
	reader, err := c.Client()
	if err != nil {
		return nil, err
	}
	options := []client.ListOption{client.Limit(maxNames)}
	if namespaced {
		namespace, _, err := c.Namespace()
		if err != nil {
			return nil, err
		}
		options = append(options, client.InNamespace(namespace))
	}
	if err := reader.List(ctx, list, options...); err != nil {
		return nil, err
	}
	var names []string
	err = meta.EachListItem(list, func(object runtime.Object) error {
		named, err := meta.Accessor(object)
		if err == nil {
			names = append(names, named.GetName())
		}
		return err
	})
	return names, err
}
