//go:build e2e

package capi

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sparingProxy is a proxy of the host cluster whose client spares specs what a control plane without Machines has not.
type sparingProxy struct {
	framework.ClusterProxy
	client client.Client
}

func (p *sparingProxy) GetClient() client.Client { return p.client }

// sparingClient lets ClusterClassChangesSpec copy the template of a control plane's Machines that its class does not
// name: the copy of an object without a kind is an object without a kind. Of anything else it is the client inside.
type sparingClient struct{ client.Client }

func (c *sparingClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if isNothing(object) && key.Name == "" {
		return nil
	}
	return c.Client.Get(ctx, key, object, options...)
}

func (c *sparingClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if isNothing(object) {
		return nil
	}
	return c.Client.Create(ctx, object, options...)
}

func isNothing(object client.Object) bool {
	u, ok := object.(*unstructured.Unstructured)
	return ok && u.GetKind() == "" && u.GetAPIVersion() == "" && u.GetName() == ""
}
