package components

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/arguments"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// Component describes one part of a control plane. Whatever else must know of components reads their descriptions, which
// package registry lists.
type Component struct {
	// Name is the component's name and the suffix of its objects' names.
	Name string
	// After are the components that must work before this one is applied, and have their version before it in an upgrade.
	// Without any it comes after the certificates.
	After []string
	// Condition is the type of the condition that says how the component is.
	Condition string
	// Absent, if there, reports whether a control plane goes without the component.
	Absent func(spec *controlplanev1.KOKControlPlaneSpec) bool
	// Kubernetes is true for a program of Kubernetes: its version is spec.version, and status.versions counts its pods.
	Kubernetes bool
	// ServesAPI is true for the component that serves the tenant's API: spec.replicas and status count its pods.
	ServesAPI bool
	// Ports are those that it listens on.
	Ports []ports.Port
	// Settings are the component's own field of spec; nil for etcd, of whose two clusters spec.etcd has what both share.
	Settings *Settings
	// Keys are those that rotate and that its pods have.
	Keys HeldKeys
	// Patches are what spec.patches may change.
	Patches patches.Hosted
	// Workload is an empty object of the kind that the component's pods are of.
	Workload func(spec *controlplanev1.KOKControlPlaneSpec) client.Object
	// OwnHosts, if there, says in which field of spec the number of replicas is that need a host node each on the host
	// network, and the number; an empty field where there are as many as host nodes.
	OwnHosts func(in *Input) (field string, replicas int32)

	// Certificates are the content of the component's Secret.
	Certificates func(in *Input, of Issuance) (Certificates, error)
	// ClearUnused clears what of an input the component's objects do not depend on, so that a change of that never
	// makes the component adopt a new rendering. Patches of other components are cleared for all.
	ClearUnused func(in *Input)
	// Services are rendered first: certificates, etcd's configuration files and kube-apiserver name their addresses,
	// which are an input of kube-apiserver alone.
	Services func(in *Input) ([]*corev1.Service, error)
	// Objects are all other objects, without patches. They are rendered from what Inputs gives.
	Objects func(in *Input) ([]client.Object, error)
	// Files, if there, is the ConfigMap of a component whose files change with what happens, not with a new rendering: as it
	// is when the component is made.
	Files func(in *Input) (*corev1.ConfigMap, error)
	// Scale, if there, sets what may change without a new rendering: the number of replicas, in objects
	// that were rendered at any time.
	Scale func(in *Input, objects []client.Object)
}

// Settings are what users set of a component in a field of spec of its own.
type Settings struct {
	// Field is the name of that.
	Field string
	// Spec is what users can set of every component, Replicas, if there, its number of replicas.
	Spec     func(spec *controlplanev1.KOKControlPlaneSpec) *controlplanev1.ComponentSpec
	Replicas func(spec *controlplanev1.KOKControlPlaneSpec) **int32
	// Arguments are what users may say in extraArgs.
	Arguments arguments.Rules
}

// IsOf reports whether a control plane has the component.
func (c Component) IsOf(spec *controlplanev1.KOKControlPlaneSpec) bool {
	return c.Absent == nil || !c.Absent(spec)
}

// Inputs are the inputs that the component's objects depend on.
func (c Component) Inputs(in *Input) *Input {
	own := *in
	own.Spec = *in.Spec.DeepCopy()
	c.ClearUnused(&own)
	own.Spec.Patches = nil
	for _, patch := range in.Spec.Patches {
		if patch.Target.Component == c.Name {
			own.Spec.Patches = append(own.Spec.Patches, patch)
		}
	}
	return &own
}

// Rendered are all objects but Services, as the patches of the spec want them.
func (c Component) Rendered(in *Input) ([]client.Object, error) {
	objects, err := c.Objects(c.Inputs(in))
	if err != nil {
		return nil, err
	}
	patched, err := c.Patched(in, objects)
	if err != nil {
		return nil, err
	}
	boundMemory(objects, patched)
	return patched, nil
}

// Patched are objects of the component as the patches of the spec want them. Its error is a
// *patches.Error.
func (c Component) Patched(in *Input, objects []client.Object) ([]client.Object, error) {
	return patches.Apply(c.Target(), objects, in.Spec.Patches, nil)
}

// Target is the component as patches know it.
func (c Component) Target() patches.Target { return patches.Target{Name: c.Name, Hosted: &c.Patches} }
