package status

import (
	"fmt"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
)

// listedMembers are the members that etcd lists. While etcd does not answer, they are those of the status before.
func listedMembers(health *etcd.Health, before []controlplanev1.EtcdMemberStatus) []controlplanev1.EtcdMemberStatus {
	if health == nil || health.Err != nil {
		return before
	}
	var members []controlplanev1.EtcdMemberStatus
	for _, member := range health.Members {
		state := controlplanev1.EtcdMemberVoter
		switch {
		case !member.Listed:
			continue
		case member.Learner && !member.Started:
			state = controlplanev1.EtcdMemberJoining
		case member.Learner:
			state = controlplanev1.EtcdMemberLearner
		}
		members = append(members, controlplanev1.EtcdMemberStatus{Name: member.Name, State: state})
	}
	return members
}

// gaining says that an etcd cluster gains members, and what that waits for; empty when it does not.
func gaining(in *Input, seen *Observation, component string) string {
	if !etcdclusters.Bootstrapped(in.ControlPlane, component) {
		return ""
	}
	spec := etcdclusters.Spec(in.ControlPlane, component)
	if count := etcdclusters.Voters(in.ControlPlane, component); count > 0 && count < *spec.Replicas {
		return changing(seen, component, fmt.Sprintf("%s: %d of %d members vote", component, count, *spec.Replicas))
	}
	return ""
}

// losing says that an etcd cluster loses members, or what is left of some, and what that waits for.
func losing(in *Input, seen *Observation, component string) string {
	if !etcdclusters.Bootstrapped(in.ControlPlane, component) || gaining(in, seen, component) != "" {
		return ""
	}
	spec := etcdclusters.Spec(in.ControlPlane, component)
	if listed := len(etcdclusters.Status(in.ControlPlane, component).Members); listed > int(*spec.Replicas) {
		return changing(seen, component, fmt.Sprintf("%s: %d members exist, %d are wanted", component, listed, *spec.Replicas))
	}
	if health := seen.Etcd[component]; health != nil && health.Change != "" {
		return component + ": " + health.Change
	}
	return ""
}

func changing(seen *Observation, component, message string) string {
	if health := seen.Etcd[component]; health != nil && health.Change != "" {
		return message + ": " + health.Change
	}
	return message
}
