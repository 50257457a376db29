package controllers

import (
	"context"
	"fmt"
	"slices"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// held says why components after etcd keep their stored rendering; empty when they may adopt a new one. API servers must not change
// before etcd has.
func (s *scope) held() string {
	if s.refused != nil {
		return "spec.patches are refused"
	}
	if component := s.growing(); component != "" {
		return component + " gains members: see " + controlplanev1.ScalingUpCondition
	}
	return ""
}

// growing is an etcd cluster that has fewer voters than it shall have; empty for none. API servers are told of
// new members when all have joined: they restart for it, and once is enough.
func (s *scope) growing() string {
	for _, component := range etcdclusters.Components {
		if etcdclusters.Bootstrapped(s.controlPlane, component) && etcdclusters.Voters(s.controlPlane, component) < *etcdclusters.Spec(s.controlPlane, component).Replicas {
			return component
		}
	}
	return ""
}

// heldBack waits when a component that is held would adopt a new rendering: those after it, and the tenant, wait too.
// For refused patches only an upgrade waits: they may be for one component alone, and the problem is told already.
func heldBack(ctx context.Context, s *scope, component components.Component, why string) flow.Result {
	if why == "" || s.refused != nil && !s.upgrading() {
		return flow.Done()
	}
	hashes, err := s.hashesBesideMembers(component)
	if err != nil {
		return flow.Failed(err)
	}
	current, err := s.revisions.Current(ctx, s.key, component.Name, s.rolloutAfter, hashes...)
	if current || err != nil {
		return flow.Failed(err)
	}
	return flow.Waiting(fmt.Sprintf("%s takes no change while %s", component.Name, why))
}

// heldWhileLosing lets an upgrade wait for an etcd cluster whose pods it replaces, but not while members go. Any
// other change does not wait for that: API servers must be told of those that go. A cluster that keeps its pods does not block others.
func heldWhileLosing(ctx context.Context, s *scope, cluster etcdcomponent.Cluster) flow.Result {
	component := cluster.Component
	if !s.upgrading() || !s.evenVoters(component) || s.volatile(component) || s.held() != "" {
		return flow.Done()
	}
	stored, err := s.revisions.Newest(ctx, s.key, component)
	if err != nil {
		return flow.Failed(err)
	}
	replaces, err := replacesPods(ctx, s, cluster.AsComponent(), asBootstrapped(s, cluster, stored), stored)
	if !replaces || err != nil {
		return flow.Failed(err)
	}
	return flow.Waiting(fmt.Sprintf("%s takes no change while it loses members: see %s", component, controlplanev1.ScalingDownCondition))
}

// olderPods lets an upgrade wait for a pod of a component that runs another version than the wanted one. A pod that
// stops serves until it has, and a Deployment does not count it any more.
func olderPods(s *scope, component string) flow.Result {
	if !s.upgrading() {
		return flow.Done()
	}
	for i := range s.snapshot.Pods[component] {
		pod := &s.snapshot.Pods[component][i]
		if version := hostpods.Version(pod); version != "" && version != s.input.Version {
			return flow.Waiting(fmt.Sprintf("others are upgraded when %s is: pod %s still runs %s", component, pod.Name, version))
		}
	}
	return flow.Done()
}

// adopted reports whether the newest rendering of a component was made from these inputs.
func (s *scope) adopted(ctx context.Context, component components.Component, in *components.Input) (bool, error) {
	hash, err := component.Inputs(in).Hash()
	if err != nil {
		return false, err
	}
	return s.revisions.Current(ctx, s.key, component.Name, s.rolloutAfter, hash)
}

// hashesBesideMembers identify the inputs of a component with any number of members that an etcd cluster gains: which
// of them API servers know is no change that anybody waits for. Members that shall go wait until no API server knows
// them.
func (s *scope) hashesBesideMembers(component components.Component) ([]string, error) {
	counts := func(etcd string) []int32 {
		if !slices.Contains(etcdclusters.Of(s.controlPlane), etcd) {
			return []int32{0}
		}
		if wanted := *etcdclusters.Spec(s.controlPlane, etcd).Replicas; etcdclusters.Voters(s.controlPlane, etcd) > wanted {
			return []int32{wanted}
		}
		return []int32{1, 3, 5, 7}
	}
	var hashes []string
	for _, data := range counts(names.EtcdData) {
		for _, events := range counts(names.EtcdEvents) {
			other := etcdcomponent.Events.WithReplicas(etcdcomponent.Data.WithReplicas(&s.input, data), events)
			hash, err := component.Inputs(other).Hash()
			if err != nil {
				return nil, err
			}
			hashes = append(hashes, hash)
		}
	}
	return hashes, nil
}
