package operator

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rollout"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// decideRollout decides on the next pod that is deleted because it is not as its StatefulSet wants it.
func (c *cluster) decideRollout(ctx context.Context, health *etcd.Health) (decision, error) {
	set, err := c.statefulSet(ctx)
	switch {
	case err != nil:
		return decision{}, client.IgnoreNotFound(err)
	case set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType || set.DeletionTimestamp != nil:
		return decision{}, nil
	case set.Status.ObservedGeneration != set.Generation || set.Status.UpdateRevision == "":
		return decision{waitsFor: fmt.Sprintf("the host cluster has not seen the change of StatefulSet %s yet", set.Name)}, nil
	}
	byComponent, err := c.pods(ctx)
	if err != nil {
		return decision{}, err
	}
	pods := byComponent[c.Cluster.Component]
	state, err := c.rolloutState(ctx, health, set, pods)
	if err != nil {
		return decision{}, err
	}
	action := rollout.Decide(state)
	if action.Lead != "" {
		return decision{act: func(ctx context.Context) (string, error) {
			return c.moveLead(ctx, action.Lead, "the member that led is replaced", health)
		}}, nil
	}
	if action.Replace == "" {
		return decision{waitsFor: action.Reason}, nil
	}
	pod := &pods[hostpods.Index(pods, action.Replace)]
	did := fmt.Sprintf("member %s is replaced", pod.Name)
	if !outdated(set, pod) {
		did = fmt.Sprintf("member %s starts anew, for its database has many free pages", pod.Name)
	}
	return decision{act: func(ctx context.Context) (string, error) { return c.replacePod(ctx, pod, did) }}, nil
}

// rolloutState is all that the next step depends on. Pods beyond those that the StatefulSet wants go by themselves.
func (c *cluster) rolloutState(ctx context.Context, health *etcd.Health, set *appsv1.StatefulSet, pods []corev1.Pod) (rollout.State, error) {
	state := rollout.State{
		Unsettled: c.unsettled(health),
		Volatile:  c.Bootstrapped && c.Cluster.Spec(&c.Input).Storage.Type == controlplanev1.EtcdStorageEmptyDir,
	}
	fragmented := c.fragmented(health, etcdcomponent.VolumeSize(set))
	for ordinal, end := workloads.Ordinals(set); ordinal < end; ordinal++ {
		member := rollout.Member{Name: fmt.Sprintf("%s-%d", set.Name, ordinal), Ordinal: int(ordinal)}
		if i := hostpods.Index(pods, member.Name); i >= 0 {
			if err := c.addPod(ctx, &member, set, &pods[i]); err != nil {
				return state, err
			}
			// A restart defragments a member. It is for members that are ready and have not started lately.
			lately := c.operator.clock.Since(pods[i].CreationTimestamp.Time) < c.operator.defragmentEvery()
			member.Outdated = member.Outdated || member.Ready && !lately && slices.Contains(fragmented, member.Name)
		}
		for _, m := range health.Members {
			if m.Name == member.Name {
				member.Answers, member.Leader, member.InQuorum = m.Answered, m.Leader, m.InQuorum()
			}
		}
		state.Members = append(state.Members, member)
	}
	return state, nil
}

// addPod adds to a member what its pod, and the node of that, say.
func (c *cluster) addPod(ctx context.Context, member *rollout.Member, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	member.Exists, member.Host = true, pod.Spec.NodeName
	member.Outdated = outdated(set, pod)
	member.Ready, member.Stopping = hostpods.Available(pod, set.Spec.MinReadySeconds, c.operator.clock.Now()), pod.DeletionTimestamp != nil
	var err error
	member.Cordoned, err = cordon.PodIsOn(ctx, c.Host.Live, pod)
	if err != nil || hostpods.Ready(pod) || member.Host == "" {
		return err
	}
	member.Lost, err = hostpods.NodeIsLost(ctx, c.Host.Live, member.Host)
	return err
}

// outdated reports whether a pod is not as its StatefulSet wants it now.
func outdated(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	return pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision
}

// defragmentsAtStart is the first etcd that writes a fragmented database anew when it starts.
var defragmentsAtStart = version.MustParseGeneric("3.6.0")

// fragmented are the members that have many free pages, and write their files anew when they start. No member is stopped for that
// where fewer than three are desired, where data are in pods, or while a member is on a cordoned node, where it could not start.
// volume is the size with which volumes began; nil where it is not known.
func (c *cluster) fragmented(health *etcd.Health, volume *resource.Quantity) []string {
	if !c.Bootstrapped || health.Err != nil || c.desiredMembers() < 3 || len(c.Cordoned) > 0 || c.Cluster.DefragmentsFrom(&c.Input, volume) == 0 ||
		c.Cluster.Spec(&c.Input).Storage.Type == controlplanev1.EtcdStorageEmptyDir {
		return nil
	}
	var names []string
	for _, m := range health.Members {
		is, err := version.ParseGeneric(m.Version)
		if err != nil || is.LessThan(defragmentsAtStart) {
			return nil
		}
		names = append(names, m.Name)
	}
	state := health.Space()
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(state.Members, func(m space.Member) bool { return m.Name == name && m.Fragmented() })
	})
}

// unsettled says why no member that works may be stopped; empty for no such reason.
func (c *cluster) unsettled(health *etcd.Health) string {
	switch {
	case health.Err != nil:
		return fmt.Sprintf("the cluster does not answer: %v", health.Err)
	case !c.Bootstrapped:
		return "not all members have joined yet"
	case slices.ContainsFunc(health.Members, func(m etcd.Member) bool { return m.Learner }):
		return "its members change"
	}
	return ""
}
