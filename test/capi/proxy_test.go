//go:build e2e

package capi

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
// name: the class is read as if it named one, whose copy is nothing, and is written without. Of anything else it is the
// client inside.
type sparingClient struct{ client.Client }

// noMachines is the template that a class without one is read with.
var noMachines = clusterv1.ClusterClassTemplateReference{APIVersion: "none/v1", Kind: "NoMachines", Name: "none"}

func (c *sparingClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if isNoMachines(object) {
		return nil
	}
	err := c.Client.Get(ctx, key, object, options...)
	if class, ok := object.(*clusterv1.ClusterClass); ok && err == nil && !class.Spec.ControlPlane.MachineInfrastructure.TemplateRef.IsDefined() {
		class.Spec.ControlPlane.MachineInfrastructure.TemplateRef = noMachines
	}
	return err
}

func (c *sparingClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if isNoMachines(object) {
		return nil
	}
	if class, ok := object.(*clusterv1.ClusterClass); ok && class.Spec.ControlPlane.MachineInfrastructure.TemplateRef.Kind == noMachines.Kind {
		class.Spec.ControlPlane.MachineInfrastructure = clusterv1.ControlPlaneClassMachineInfrastructureTemplate{}
	}
	return c.Client.Create(ctx, object, options...)
}

func isNoMachines(object client.Object) bool {
	return object.GetObjectKind().GroupVersionKind() == noMachines.GroupVersionKind()
}
