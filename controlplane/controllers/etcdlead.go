package controllers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/lead"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// leavingMembers are, by component, members of etcd whose nodes are cordoned, and those whose pods still say that
// theirs is.
func leavingMembers(ctx context.Context, reader client.Reader, pods map[string][]corev1.Pod) (map[string][]string, error) {
	leaving := map[string][]string{}
	for _, component := range etcdComponents {
		for i := range pods[component] {
			pod := &pods[component][i]
			cordoned, err := onCordonedNode(ctx, reader, pod)
			if err != nil {
				return nil, err
			}
			if cordoned {
				leaving[component] = append(leaving[component], pod.Name)
			} else if podCondition(pod, controlplanev1.PodReadyToDrain) != nil {
				leaving[component] = append(leaving[component], pod.Name+" no more")
			}
		}
	}
	return leaving, nil
}

func onCordonedNode(ctx context.Context, reader client.Reader, pod *corev1.Pod) (bool, error) {
	if pod.Spec.NodeName == "" {
		return false, nil
	}
	return cordon.Is(ctx, reader, pod.Spec.NodeName)
}

// leave takes the lead away from a cordoned node, and has the pods there say whether they may be drained. It is how
// the cluster is then. Nothing moves in a visit that changed something else before.
func (v *etcdVisit) leave(ctx context.Context, health *etcd.Health, config *tls.Config, changed bool) *etcd.Health {
	byComponent, err := listPods(ctx, v.host.Live, v.input.Cluster)
	if err != nil {
		health.Lead = errortext.Steady(err)
		return health
	}
	pods, cordoned := byComponent[v.cluster.Component], map[string]bool{}
	for i := range pods {
		if cordoned[pods[i].Name], err = onCordonedNode(ctx, v.host.Live, &pods[i]); err != nil {
			health.Lead = errortext.Steady(err)
			return health
		}
	}
	state := v.leadState(health, pods, cordoned, changed)
	action := lead.Decide(state)
	health.Lead = action.Reason
	if action.To != "" {
		if err := v.moveLead(ctx, action.To, health, config); err != nil {
			health.Lead = errortext.Steady(err)
		} else {
			before := health
			health = v.check(ctx, config)
			health.Change, health.Rollout = before.Change, before.Rollout
		}
	}
	var failed []error
	for i := range pods {
		failed = append(failed, v.tellDrain(ctx, &pods[i], drainable(health, pods[i].Name, cordoned[pods[i].Name], state.Alone())))
	}
	if err := errors.Join(failed...); err != nil {
		health.Lead = errortext.Steady(err)
	}
	return health
}

// leadState is all that decides who leads, as etcd and the host cluster have it now.
func (v *etcdVisit) leadState(health *etcd.Health, pods []corev1.Pod, cordoned map[string]bool, changed bool) lead.State {
	state := lead.State{Changing: v.unsettled(health)}
	if state.Changing == "" && (changed || !v.settled(health)) {
		state.Changing = "its members change"
	}
	for _, m := range health.Members {
		if !m.Listed {
			continue
		}
		member := lead.Member{
			Name: m.Name, Ordinal: v.cluster.Ordinal(&v.input, m.Name), Voter: !m.Learner, Leader: m.Leader,
			InQuorum: m.Err == nil && m.Answered && m.Follows, Cordoned: cordoned[m.Name],
		}
		if i := podNamed(pods, m.Name); i >= 0 {
			member.Ready, member.Stopping = podReady(&pods[i]), pods[i].DeletionTimestamp != nil
		}
		state.Members = append(state.Members, member)
	}
	return state
}

func (v *etcdVisit) moveLead(ctx context.Context, to string, health *etcd.Health, config *tls.Config) error {
	if err := v.r.changeEtcd(ctx, membership.MoveLeader, to, health, v.members, config); err != nil {
		return err
	}
	what := steps[membership.MoveLeader] + " " + to
	v.log.Info("Moved the lead of etcd away from a node that is cordoned", "step", what)
	v.r.recorder.Eventf(v.regarding, nil, corev1.EventTypeNormal, "EtcdLeaderMoved", string(membership.MoveLeader),
		"%s: %s, for the node of the member that led is cordoned", v.cluster.Component, what)
	return nil
}

// drainable is what the pod of a member says of a drain; nil when its node is not cordoned.
func drainable(health *etcd.Health, member string, cordoned, alone bool) *corev1.PodCondition {
	if !cordoned {
		return nil
	}
	is := &corev1.PodCondition{Type: controlplanev1.PodReadyToDrain, Status: corev1.ConditionFalse}
	leads, led := false, false
	for _, m := range health.Members {
		leads, led = leads || m.Leader && m.Name == member, led || m.Leader
	}
	switch {
	case health.Err != nil || !led:
		is.Reason, is.Message = "LeaderUnknown", "etcd does not tell who leads: see the condition EtcdClusterHealthy of the KOKControlPlane"
	case leads && alone:
		is.Status, is.Reason, is.Message = corev1.ConditionTrue, "OnlyMember", "there is no other member: etcd is away until this one is back"
	case leads:
		is.Reason, is.Message = "Leads", health.Lead
	default:
		is.Status, is.Reason = corev1.ConditionTrue, "NotLeading"
	}
	return is
}

// tellDrain has a pod say what a drain may wait for, or nothing of it.
func (v *etcdVisit) tellDrain(ctx context.Context, pod *corev1.Pod, want *corev1.PodCondition) error {
	is := podCondition(pod, controlplanev1.PodReadyToDrain)
	if pod.DeletionTimestamp != nil || is == nil && want == nil ||
		is != nil && want != nil && is.Status == want.Status && is.Reason == want.Reason && is.Message == want.Message {
		return nil
	}
	var condition any = map[string]string{"type": controlplanev1.PodReadyToDrain, "$patch": "delete"}
	if want != nil {
		if want.LastTransitionTime = metav1.NewTime(v.r.Clock.Now()); is != nil && is.Status == want.Status {
			want.LastTransitionTime = is.LastTransitionTime
		}
		condition = want
	}
	// The UID makes sure that it is this very pod.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return err
	}
	if err := v.host.Client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the condition %s of pod %s: %w", controlplanev1.PodReadyToDrain, client.ObjectKeyFromObject(pod), err)
	}
	return nil
}
