package controllers

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

// applyEtcd applies one etcd cluster. Its configuration files are written on every change of
// membership, its workload only when the inputs change.
func (r *Reconciler) applyEtcd(cluster etcd.Cluster) func(context.Context, *scope) (string, error) {
	component := cluster.Render()
	return func(ctx context.Context, s *scope) (string, error) {
		files, err := etcdFiles(ctx, s, cluster)
		if err != nil {
			return "", err
		}
		if _, err := applyAll(ctx, s, files); err != nil {
			return "", err
		}
		if waiting, err := formerPods(ctx, s, component.Name, r.Clock.Now()); waiting != "" || err != nil {
			return waiting, err
		}
		objects, err := renderedEtcd(ctx, s, cluster, false)
		if err != nil {
			return "", err
		}
		if waiting, err := applyRendering(ctx, s, component.Name, objects); waiting != "" || err != nil {
			return waiting, err
		}
		return heldWhileLosing(ctx, s, cluster)
	}
}

// applyComponent applies the component's rendering.
func applyComponent(component components.Component) func(context.Context, *scope) (string, error) {
	return func(ctx context.Context, s *scope) (string, error) {
		held := s.held()
		objects, err := rendered(ctx, s, component, &s.input, held != "")
		if err != nil {
			return "", err
		}
		if component.Scale != nil {
			component.Scale(&s.input, objects)
		}
		if waiting, err := applyRendering(ctx, s, component.Name, objects); waiting != "" || err != nil {
			return waiting, err
		}
		if waiting, err := heldBack(ctx, s, component, held); waiting != "" || err != nil {
			return waiting, err
		}
		return formerVersion(ctx, s, component.Name)
	}
}

func applyRendering(ctx context.Context, s *scope, component string, objects []client.Object) (string, error) {
	applied, err := applyAll(ctx, s, objects)
	if err != nil {
		return "", err
	}
	if err := deleteSuperseded(ctx, s, component, objects); err != nil {
		return "", err
	}
	for _, object := range applied {
		if state := s.stateOf(component, object); state != nil {
			s.remember(component, object)
			return state.waiting(component, s.upgrading()), nil
		}
	}
	return "", nil
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
			s.deeds.repair(result.Repair)
			return err
		})
	}
	return live, group.Wait()
}

// isRace reports whether an error only says that another write was faster or that a cache was
// late: the next reconcile sees the new state.
func isRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
