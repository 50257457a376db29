package adoption

import (
	"context"
	"fmt"
	"slices"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
)

// WhyHeld says why components after etcd keep their stored rendering; empty when they may adopt a new one. API servers must not change
// before etcd has.
func (a *Adopter) WhyHeld() string {
	if a.Refused != nil {
		return "spec.patches are refused"
	}
	if component := etcdclusters.Growing(a.ControlPlane); component != "" {
		return component + " gains members: see " + conditionsv1.ScalingUpCondition
	}
	return ""
}

// waitWhileHeld waits when a component that is held would adopt a new rendering: those after it, and the tenant, wait too.
// For refused patches only an upgrade waits: they may be for one component alone, and the problem is told already.
func (a *Adopter) waitWhileHeld(ctx context.Context, component components.Component, why string) flow.Result {
	if why == "" || a.Refused != nil && !a.Upgrading {
		return flow.Done()
	}
	hashes, err := a.hashesBesideMembers(component)
	if err != nil {
		return flow.Failed(err)
	}
	current, err := a.Revisions.Current(ctx, a.Cluster, component.Name, a.RolloutAfter, hashes...)
	if current || err != nil {
		return flow.DoneOrFailed(err)
	}
	return flow.Waiting(fmt.Sprintf("%s takes no change while %s", component.Name, why))
}

// waitForOlderPods lets an upgrade wait for a pod of a component that runs another version than the wanted one. A pod that
// stops serves until it has, and a Deployment does not count it any more.
func (a *Adopter) waitForOlderPods(component string) flow.Result {
	if !a.Upgrading {
		return flow.Done()
	}
	for i := range a.Pods[component] {
		pod := &a.Pods[component][i]
		if version := hostpods.Version(pod); version != "" && version != a.Input.Version {
			return flow.Waiting(fmt.Sprintf("others are upgraded when %s is: pod %s still runs %s", component, pod.Name, version))
		}
	}
	return flow.Done()
}

// hashesBesideMembers are the hashes of a component's inputs. While an etcd cluster grows there is one for each number of members that it
// may have, because nothing waits until API servers know the new members. While it shrinks there is only one, because a member leaves only
// when no API server knows it any more.
func (a *Adopter) hashesBesideMembers(component components.Component) ([]string, error) {
	counts := func(cluster etcdcomponent.Cluster) []int32 {
		if !slices.Contains(etcdclusters.Of(a.ControlPlane), cluster.Component) {
			return []int32{0}
		}
		if wanted := *etcdclusters.Spec(a.ControlPlane, cluster.Component).Replicas; etcdclusters.Voters(a.ControlPlane, cluster.Component) > wanted {
			return []int32{wanted}
		}
		return []int32{1, 3, 5, 7}
	}
	var hashes []string
	for _, data := range counts(etcdcomponent.Data) {
		for _, events := range counts(etcdcomponent.Events) {
			other := etcdcomponent.Events.WithReplicas(etcdcomponent.Data.WithReplicas(a.Input, data), events)
			hash, err := component.Inputs(other).Hash()
			if err != nil {
				return nil, err
			}
			hashes = append(hashes, hash)
		}
	}
	return hashes, nil
}
