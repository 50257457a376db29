package controllers

import (
	"context"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

// applyEtcd applies one etcd cluster. Its configuration files follow every change of membership, and so does
// the number of pods; volumes follow the size in spec. All else of its workload changes only when a new rendering is adopted.
func (r *Reconciler) applyEtcd(cluster etcd.Cluster) func(context.Context, *scope) flow.Result {
	component := cluster.AsComponent()
	return func(ctx context.Context, s *scope) flow.Result {
		if cluster.Component == names.EtcdEvents {
			if result := r.stopFormerEvents(ctx, s); !result.Done() {
				return result
			}
		}
		files, err := etcdFiles(ctx, s, cluster)
		if err != nil {
			return flow.Failed(err)
		}
		if _, err := applyAll(ctx, s, files); err != nil {
			return flow.Failed(err)
		}
		if result := stoppingPods(ctx, s, component.Name, r.Clock.Now()); !result.Done() {
			return result
		}
		objects, err := renderedEtcd(ctx, s, cluster, false)
		if err != nil {
			return renderingFailed(err)
		}
		if err := resizeVolumes(ctx, s, cluster, objects); err != nil {
			return flow.Failed(err)
		}
		if result := applyRendering(ctx, s, component.Name, objects); !result.Done() {
			return result
		}
		if etcdclusters.Seeded(s.controlPlane, component.Name) {
			return flow.Waiting(component.Name + " has restored its snapshot, and was not observed yet")
		}
		return heldWhileLosing(ctx, s, cluster)
	}
}

// applyComponent applies the component's rendering.
func applyComponent(component components.Component) func(context.Context, *scope) flow.Result {
	return func(ctx context.Context, s *scope) flow.Result {
		held := s.held()
		objects, err := rendered(ctx, s, component, &s.input, held != "")
		if err != nil {
			return renderingFailed(err)
		}
		if err := noteNotTaken(ctx, s, component); err != nil {
			return flow.Failed(err)
		}
		if component.Scale != nil {
			component.Scale(&s.input, objects)
		}
		if result := applyRendering(ctx, s, component.Name, objects); !result.Done() {
			return result
		}
		if result := heldBack(ctx, s, component, held); !result.Done() {
			return result
		}
		return olderPods(s, component.Name)
	}
}

// renderingFailed is the result without a rendering. A patch that cannot be applied is for a person.
func renderingFailed(err error) flow.Result {
	if patches.IsRefused(err) {
		return flow.Blocked(controlplanev1.ReconcileFailedReason, err)
	}
	return flow.Failed(err)
}

// applyRendering applies the objects of a component, and waits until others may build on its workload.
func applyRendering(ctx context.Context, s *scope, component string, objects []client.Object) flow.Result {
	applied, err := applyAll(ctx, s, objects)
	if err != nil {
		return flow.Failed(err)
	}
	superseded, err := s.revisions.Superseded(ctx, s.key, component)
	if err != nil {
		return flow.Failed(err)
	}
	if err := s.host.Applier.Prune(ctx, s.key, component, superseded, objects); err != nil {
		return flow.Failed(err)
	}
	for _, object := range applied {
		if state := s.stateOf(component, object); state != nil {
			s.remember(component, object)
			return flow.Waiting(state.Waiting(component, s.upgrading()))
		}
	}
	return flow.Done()
}

// rendered is the component's rendering: the one that is stored while its inputs are the same, else a new
// one. While renderings are held, no component adopts a new one.
func rendered(ctx context.Context, s *scope, component components.Component, in *components.Input, held bool) ([]client.Object, error) {
	if held {
		stored, err := s.revisions.Kept(ctx, s.key, component.Name)
		if err != nil || len(stored) > 0 {
			return stored, err
		}
	}
	hash, err := component.Inputs(in).Hash()
	if err != nil {
		return nil, err
	}
	return s.revisions.Rendering(ctx, s.key, component.Name, hash, s.rolloutAfter, func() ([]client.Object, error) {
		if s.unsupported != nil {
			return nil, s.unsupported
		}
		return component.Rendered(in)
	})
}

// applyAll applies objects of one step together and returns them as they are now. One that fails does not
// cut the requests of others: a creation of a Service that is cut leaves its address taken for minutes.
func applyAll(ctx context.Context, s *scope, objects []client.Object) ([]client.Object, error) {
	live := make([]client.Object, len(objects))
	group := errgroup.Group{}
	for i, object := range objects {
		if owner := s.hostOwner(); owner != nil {
			object.SetOwnerReferences([]metav1.OwnerReference{*owner})
		}
		group.Go(func() (err error) {
			defer panics.Recover(ctx, "applying an object", &err)
			result, err := s.host.Applier.Apply(ctx, object)
			live[i] = result.Live
			s.deeds.Repair(result.Repair)
			return err
		})
	}
	return live, group.Wait()
}
