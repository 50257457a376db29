package adoption

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

// Adopter adopts renderings for the components of one control plane. ControlPlane and Input are those of the reconcile, and follow what it
// changes. All else is as the reconcile knew it when the step began.
type Adopter struct {
	ControlPlane *controlplanev1.KOKControlPlane
	Cluster      client.ObjectKey
	Host         *hostclusters.Host
	// HostOwner is the owner of objects in the host cluster; nil when the host cluster is not the management cluster.
	HostOwner *metav1.OwnerReference
	Revisions *revision.Store
	// Input is what components are rendered from.
	Input *components.Input
	// Pods are those of the control plane, by component.
	Pods map[string][]corev1.Pod
	// Upgrading is true while a pod was last seen at another version than that of Input.
	Upgrading bool
	// Unsupported is why nothing new can be rendered; what is applied is kept up all the same.
	Unsupported error
	// Refused is why the patches of the spec cannot be applied; until they can, no component adopts a new rendering.
	Refused error
	// RolloutAfter is spec.rollout.after once it has passed: older renderings are replaced.
	RolloutAfter time.Time

	// Note is told what only a person can put right while everything goes on; Repaired is told what others had changed; Applied is
	// given the workload of a component as it is after apply. Steps that run together call them.
	Note     func(problem error)
	Repaired func(*apply.Repair)
	Applied  func(component string, workload client.Object)
}

// Rendering is the component's rendering: the one that is stored while its inputs are the same, else a new
// one. While renderings are held, no component adopts a new one.
func (a *Adopter) Rendering(ctx context.Context, component components.Component, in *components.Input, held bool) ([]client.Object, error) {
	if held {
		stored, err := a.Revisions.Kept(ctx, a.Cluster, component.Name)
		if err != nil || len(stored) > 0 {
			return stored, err
		}
	}
	hash, err := component.Inputs(in).Hash()
	if err != nil {
		return nil, err
	}
	return a.Revisions.Rendering(ctx, a.Cluster, component.Name, hash, a.RolloutAfter, func() ([]client.Object, error) {
		if a.Unsupported != nil {
			return nil, a.Unsupported
		}
		return component.Rendered(in)
	})
}

// RenderingFailed is the result without a rendering. A patch that cannot be applied is for a person.
func RenderingFailed(err error) flow.Result {
	if patches.IsRefused(err) {
		return flow.Blocked(conditionsv1.ReconcileFailedReason, err)
	}
	return flow.Failed(err)
}

// Adopted reports whether the newest rendering of a component was made from these inputs.
func (a *Adopter) Adopted(ctx context.Context, component components.Component, in *components.Input) (bool, error) {
	hash, err := component.Inputs(in).Hash()
	if err != nil {
		return false, err
	}
	return a.Revisions.Current(ctx, a.Cluster, component.Name, a.RolloutAfter, hash)
}

// ApplyAs applies the objects of a component, and waits until others may build on its workload.
func (a *Adopter) ApplyAs(ctx context.Context, component string, objects []client.Object) flow.Result {
	applied, err := a.ApplyAll(ctx, objects)
	if err != nil {
		return flow.Failed(err)
	}
	superseded, err := a.Revisions.Superseded(ctx, a.Cluster, component)
	if err != nil {
		return flow.Failed(err)
	}
	if err := a.Host.Applier.Prune(ctx, a.Cluster, component, superseded, objects); err != nil {
		return flow.Failed(err)
	}
	for _, object := range applied {
		if state := etcdclusters.StateOf(a.ControlPlane, component, object); state != nil {
			a.Applied(component, object)
			return flow.DoneOrWaiting(state.Waiting(component, a.Upgrading))
		}
	}
	return flow.Done()
}

// ApplyAll applies objects of one step together and returns them as they are now. One that fails does not
// cut the requests of others: a creation of a Service that is cut leaves its address taken for minutes.
func (a *Adopter) ApplyAll(ctx context.Context, objects []client.Object) ([]client.Object, error) {
	live := make([]client.Object, len(objects))
	group := errgroup.Group{}
	for i, object := range objects {
		if a.HostOwner != nil {
			object.SetOwnerReferences([]metav1.OwnerReference{*a.HostOwner})
		}
		group.Go(func() (err error) {
			defer panics.Recover(ctx, "applying an object", &err)
			result, err := a.Host.Applier.Apply(ctx, object)
			live[i] = result.Live
			a.Repaired(result.Repair)
			return err
		})
	}
	return live, group.Wait()
}
