package operator

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/cordon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/lead"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// leadFacts are the pods of the members, and which of them are on cordoned nodes.
type leadFacts struct {
	pods     []corev1.Pod
	cordoned map[string]bool
	// changing is why the lead must stay where it is; empty for no such reason.
	changing string
}

// prepareDrain moves the lead away from a cordoned node, and has the pods there say whether they may be drained. The
// lead does not move in a run that took another step before.
func (c *cluster) prepareDrain(ctx context.Context, report *Report, acted bool) {
	facts, err := c.leadFacts(ctx, report.Health, acted)
	if err != nil {
		report.Lead = errortext.Steady(err)
		return
	}
	alone := c.leadState(report.Health, facts).Alone()
	moved, says := c.step(ctx, report.Health, func(_ context.Context, health *etcd.Health) (decision, error) {
		return c.decideLead(health, facts), nil
	})
	if moved {
		report.Health = c.observe(ctx)
	} else {
		report.Lead = says
	}
	writes, cancel := lasting(ctx, stepTimeout)
	defer cancel()
	var failed []error
	for i := range facts.pods {
		pod := &facts.pods[i]
		failed = append(failed, c.writeReadyToDrain(writes, pod, readyToDrain(report, pod.Name, facts.cordoned[pod.Name], alone, c.desiredMembers())))
	}
	if err := errors.Join(failed...); err != nil {
		report.Lead = errortext.Steady(err)
	}
}

func (c *cluster) leadFacts(ctx context.Context, health *etcd.Health, acted bool) (leadFacts, error) {
	byComponent, err := c.pods(ctx)
	facts := leadFacts{pods: byComponent[c.Cluster.Component], cordoned: map[string]bool{}, changing: c.unsettled(health)}
	if err != nil {
		return facts, err
	}
	for i := range facts.pods {
		if facts.cordoned[facts.pods[i].Name], err = cordon.PodIsOn(ctx, c.Host.Live, &facts.pods[i]); err != nil {
			return facts, err
		}
	}
	if facts.changing == "" && (acted || !c.membersAsDesired(health)) {
		facts.changing = "its members change"
	}
	return facts, nil
}

// decideLead decides whether another member takes the lead.
func (c *cluster) decideLead(health *etcd.Health, facts leadFacts) decision {
	action := lead.Decide(c.leadState(health, facts))
	if action.To == "" {
		return decision{waitsFor: action.Reason}
	}
	return decision{act: func(ctx context.Context) (string, error) {
		return c.moveLead(ctx, action.To, "the node of the member that led is cordoned", health)
	}}
}

// leadState is all that decides who leads, as etcd and the host cluster have it now.
func (c *cluster) leadState(health *etcd.Health, facts leadFacts) lead.State {
	state := lead.State{Changing: facts.changing}
	for _, m := range health.Members {
		if !m.Listed {
			continue
		}
		member := lead.Member{
			Name: m.Name, Ordinal: c.ordinal(m.Name), Voter: !m.Learner, Leader: m.Leader,
			InQuorum: m.Err == nil && m.InQuorum(), Cordoned: facts.cordoned[m.Name],
		}
		if i := hostpods.Index(facts.pods, m.Name); i >= 0 {
			pod := &facts.pods[i]
			member.Ready, member.Stopping, member.Created = hostpods.Ready(pod), pod.DeletionTimestamp != nil, pod.CreationTimestamp.Time
		}
		state.Members = append(state.Members, member)
	}
	return state
}

// readyToDrain is what the pod of a member says of a drain; nil when its node is not cordoned.
func readyToDrain(report *Report, member string, cordoned, alone bool, desired int) *corev1.PodCondition {
	if !cordoned {
		return nil
	}
	leader, others := "", 0
	for _, m := range report.Members {
		if m.Leader {
			leader = m.Name
		}
		if m.Name != member && m.InQuorum() {
			others++
		}
	}
	is := &corev1.PodCondition{Type: controlplanev1.PodReadyToDrain, Status: corev1.ConditionFalse}
	switch {
	case report.Err != nil || leader == "":
		is.Reason, is.Message = "LeaderUnknown", "etcd does not tell who leads: see the condition EtcdClusterHealthy of the KOKControlPlane"
	case others < desired-1:
		is.Reason = "FewerVote"
		is.Message = fmt.Sprintf("beside this member %d of %d members vote and answer: etcd may need it for its quorum. Drain when all others do", others, desired-1)
	case leader == member && alone:
		is.Status, is.Reason, is.Message = corev1.ConditionTrue, "OnlyMember", "there is no other member: etcd is away until this one is back"
	case leader == member:
		is.Reason, is.Message = "Leads", report.Lead
	default:
		is.Status, is.Reason = corev1.ConditionTrue, "NotLeading"
	}
	return is
}
