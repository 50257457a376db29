package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/byhand"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// membersAsDesired reports whether there is nothing to change, without a look at the host cluster: as many members vote
// as the spec asks for, and nothing is left of others.
func (c *cluster) membersAsDesired(health *etcd.Health) bool {
	voting, desired := 0, c.desiredMembers()
	for _, m := range health.Members {
		if m.Listed && !m.Learner {
			voting++
		}
	}
	return voting == desired && len(health.Members) == desired && len(c.members) == desired && len(health.UnknownMembers) == 0
}

// decideMembers decides on the next change of the members. Blank ones wait to be added; when facts are missing nobody knows which
// are.
func (c *cluster) decideMembers(ctx context.Context, health *etcd.Health, blank []int, factsMissing bool) (decision, error) {
	claims, err := c.claims(ctx)
	if err != nil {
		return decision{}, err
	}
	state, err := c.membersState(ctx, health)
	if err != nil {
		return decision{}, err
	}
	state.Blank, state.BlankUnknown, state.Claims = blank, factsMissing, slices.Sorted(maps.Keys(claims))
	for _, ordinal := range state.Claims {
		if isFormer(claims[ordinal]) {
			state.Former = append(state.Former, ordinal)
		}
	}
	action := membership.Decide(state)
	member := fmt.Sprintf("%s-%d", state.Name, action.Ordinal)
	switch action.Kind {
	case membership.None:
		return decision{}, nil
	case membership.Wait:
		return decision{waitsFor: action.Reason}, nil
	case membership.DeleteClaim:
		claim := claims[action.Ordinal]
		return decision{act: func(ctx context.Context) (string, error) { return c.deleteClaim(ctx, member, claim) }}, nil
	default:
		return decision{act: func(ctx context.Context) (string, error) { return c.changeMembers(ctx, action.Kind, member, health) }}, nil
	}
}

// byHand are the commands by which a person changes the members. Members that learn, and those without a leader, carry out none.
func (c *cluster) byHand(health *etcd.Health) byhand.Etcdctl {
	commands := byhand.Etcdctl{}
	for _, m := range health.Members {
		if m.InQuorum() {
			commands[m.Name] = c.Cluster.Etcdctl(c.Input.Cluster.Namespace, m.Name, c.Input.Ports)
		}
	}
	return commands
}

// works reports whether a member answers and has no problem but that etcd is full: a full etcd goes on with its members.
func works(m etcd.Member) bool { return m.Err == nil || m.Full }

// membersState is all but volumes that the next change depends on, as etcd and the host cluster have it now.
func (c *cluster) membersState(ctx context.Context, health *etcd.Health) (membership.State, error) {
	state := membership.State{
		Name: names.Object(c.Input.Cluster.Name, c.Cluster.Component), Desired: c.desiredMembers(), Disagree: health.Disagree, ByHand: c.byHand(health),
	}
	byComponent, err := c.pods(ctx)
	if err != nil {
		return state, err
	}
	pods := byComponent[c.Cluster.Component]
	for _, m := range health.Members {
		if !m.Listed {
			continue
		}
		i := hostpods.Index(pods, m.Name)
		stopping := i >= 0 && pods[i].DeletionTimestamp != nil
		state.Members = append(state.Members, membership.Member{
			Name: m.Name, ID: m.ID, Ordinal: c.ordinal(m.Name),
			Started: m.Started, Learner: m.Learner, Leader: m.Leader, Healthy: works(m) && !stopping, Differs: m.Differs,
		})
	}
	for _, unknown := range health.UnknownMembers {
		state.Members = append(state.Members, membership.Member{Name: unknown.Name, ID: unknown.ID, Ordinal: -1})
	}
	for i := range pods {
		state.Pods = append(state.Pods, c.ordinal(pods[i].Name))
	}
	if state.Stuck, err = c.stuckPods(ctx, pods, health); err != nil {
		return state, err
	}
	state.Used = c.usedMembers(byComponent[names.KubeAPIServer])
	if state.Open, err = c.openMembers(ctx); err != nil {
		return state, err
	}
	state.Hosts, err = hostpods.CountNodes(ctx, c.Host.Live, c.Input.Spec.Hosting.HostNodeLabels())
	return state, err
}

// stuckPods finds the pods that [membership.State] calls stuck. It reads the host nodes of only those pods whose members etcd does not list.
func (c *cluster) stuckPods(ctx context.Context, pods []corev1.Pod, health *etcd.Health) (map[int]string, error) {
	stuck, hosts := map[int]string{}, c.hosts()
	for i := range pods {
		pod := &pods[i]
		listed := slices.ContainsFunc(health.Members, func(m etcd.Member) bool { return m.Listed && m.Name == pod.Name })
		if listed || pod.Spec.NodeName == "" {
			continue
		}
		host, err := hosts.Named(ctx, pod.Spec.NodeName)
		if err != nil {
			return nil, err
		}
		if host.Unheard && !host.OutOfService {
			stuck[c.ordinal(pod.Name)] = host.Name
		}
	}
	return stuck, nil
}
