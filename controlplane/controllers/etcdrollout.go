package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rollout"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// rollOut deletes the next pod that is not as its StatefulSet wants it, so that it comes back as wanted, and
// says which, or what must happen before. No change of the members comes between: one visit does one or
// the other, and visits of a cluster follow each other.
func (v *etcdVisit) rollOut(ctx context.Context, health *etcd.Health) (done bool, what string, err error) {
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: v.input.Cluster.Namespace, Name: names.Object(v.input.Cluster.Name, v.cluster.Component)}
	if err := v.host.Live.Get(ctx, key, set); err != nil {
		return false, "", client.IgnoreNotFound(fmt.Errorf("read StatefulSet %s: %w", key, err))
	}
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType || set.DeletionTimestamp != nil {
		return false, "", nil
	}
	if set.Status.ObservedGeneration != set.Generation || set.Status.UpdateRevision == "" {
		return false, fmt.Sprintf("the host cluster has not seen the change of StatefulSet %s yet", key.Name), nil
	}
	pods, err := listPods(ctx, v.host.Live, v.input.Cluster)
	if err != nil {
		return false, "", err
	}
	state, err := v.rolloutState(ctx, health, set, pods[v.cluster.Component])
	if err != nil {
		return false, "", err
	}
	action := rollout.Decide(state)
	if action.Replace == "" {
		return false, action.Reason, nil
	}
	what, err = v.replace(ctx, &pods[v.cluster.Component][podNamed(pods[v.cluster.Component], action.Replace)])
	return err == nil, what, err
}

// rolloutState is all that the next step depends on. Pods beyond those that there shall be go by themselves.
func (v *etcdVisit) rolloutState(ctx context.Context, health *etcd.Health, set *appsv1.StatefulSet, pods []corev1.Pod) (rollout.State, error) {
	state := rollout.State{
		Unsettled: v.unsettled(health),
		Volatile:  v.formed && v.cluster.Spec(&v.input).Storage.Type == controlplanev1.EtcdStorageEmptyDir,
	}
	for ordinal := range int(ptr.Deref(set.Spec.Replicas, 1)) {
		member := rollout.Member{Name: fmt.Sprintf("%s-%d", set.Name, ordinal), Ordinal: ordinal}
		if i := podNamed(pods, member.Name); i >= 0 {
			pod := &pods[i]
			member.Exists, member.Host = true, pod.Spec.NodeName
			member.Outdated = pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision
			member.Ready, member.Stopping = podAvailable(pod, set.Spec.MinReadySeconds, v.r.Clock.Now()), pod.DeletionTimestamp != nil
			if !podReady(pod) && member.Host != "" {
				var err error
				if member.Lost, err = isLost(ctx, v.host.Live, member.Host); err != nil {
					return state, err
				}
			}
		}
		for _, m := range health.Members {
			if m.Name == member.Name {
				member.Answers, member.Leader = m.Answered, m.Leader
				member.InQuorum = m.Answered && m.Follows && m.Listed && !m.Learner
			}
		}
		state.Members = append(state.Members, member)
	}
	return state, nil
}

// unsettled says why no member that works may be stopped; empty for no such reason.
func (v *etcdVisit) unsettled(health *etcd.Health) string {
	switch {
	case health.Err != nil:
		return fmt.Sprintf("the cluster does not answer: %v", health.Err)
	case !v.formed:
		return "not all members have joined yet"
	case slices.ContainsFunc(health.Members, func(m etcd.Member) bool { return m.Learner }):
		return "its members change"
	}
	return ""
}

// replace deletes a pod, unless it is another one by now. Its StatefulSet makes it anew.
func (v *etcdVisit) replace(ctx context.Context, pod *corev1.Pod) (string, error) {
	err := v.host.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return fmt.Sprintf("member %s is replaced by another hand", pod.Name), nil
	case err != nil:
		return "", fmt.Errorf("delete pod %s, which is not up to date: %w", client.ObjectKeyFromObject(pod), err)
	}
	what := fmt.Sprintf("member %s is replaced", pod.Name)
	v.log.Info("Deleted the pod of an etcd member, which comes back up to date", "pod", pod.Name)
	v.r.recorder.Eventf(v.regarding, nil, corev1.EventTypeNormal, "EtcdMemberReplaced", "DeletePod", "%s: %s", v.cluster.Component, what)
	return what, nil
}

func podNamed(pods []corev1.Pod, name string) int {
	return slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name })
}

// podAvailable reports whether a pod has been ready for a number of seconds.
func podAvailable(pod *corev1.Pod, seconds int32, now time.Time) bool {
	if !podReady(pod) || seconds == 0 {
		return podReady(pod)
	}
	since := podCondition(pod, corev1.PodReady).LastTransitionTime
	return !since.IsZero() && !now.Before(since.Add(time.Duration(seconds)*time.Second))
}
