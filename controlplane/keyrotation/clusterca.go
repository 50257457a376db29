package keyrotation

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/nodekeys"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenantprobes"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

const (
	// clusterCAProbeKind is the kind of the probe that looks which cluster CAs are in the tenant and on its nodes.
	clusterCAProbeKind = "cluster-ca"
	// clusterCATimeout is for all pages of Nodes and pods of a tenant.
	clusterCATimeout = time.Minute
	// longestOwner bounds the name of an owner of pods in bytes, so that spec.keyRotation.completeAnyway takes it. It has room for any Pod.
	longestOwner = 324
	// calm is how long a look is good that found nothing, while nothing waits for it.
	calm = 5 * time.Minute
)

// wantedOfNodes is which cluster CAs nodes have to trust in a phase, and by which CA their certificates have to be; nil while nodes keep what
// they have. podsBehind is true while a pod of the control plane does not have the keys of the phase: then nodes keep those of the phase
// before. A node can get a certificate by the new CA once the controller manager signs by it, and may trust that one alone once every API
// server shows a certificate by it. Steps are numbered in their order: a phase that nodes enter late goes on with the step of the phase before.
func wantedOfNodes(of rotation.Record, podsBehind bool, former, next []byte) *nodekeys.Wanted {
	both, phase := slices.Concat(former, next), of.Phase
	step := func(number int) wanted.Order { return wanted.Order{Rotation: of.Asked, Step: number} }
	switch {
	case phase == rotation.Trusting, phase == rotation.Using && podsBehind:
		return &nodekeys.Wanted{Trusted: both, Order: step(1)}
	case phase == rotation.Using, phase == rotation.Prepared, phase == rotation.Dropping && podsBehind:
		return &nodekeys.Wanted{Trusted: both, Signer: next, Order: step(2)}
	case phase == rotation.Dropping:
		return &nodekeys.Wanted{Trusted: next, Signer: next, Order: step(3)}
	}
	return nil
}

// addClusterCAs adds what the tenant and its nodes lack of the phase: to what is behind, or in Prepared to what needs the former CA.
func (u *run) addClusterCAs(_ context.Context, state *rotation.State, l look) error {
	former, next := u.keys.RotatingCAs(pki.ClusterCA)
	podsBehind := len(state.Behind) > 0
	u.step.Nodes = wantedOfNodes(state.Record, podsBehind, former, next)
	u.step.Nodes.Image = u.NodeKeysImage
	if podsBehind {
		u.Prober.Withdraw(l.key) // Such a pod publishes CAs of another phase.
		return nil
	}
	check := &clusterCAProbe{
		api: u.Tenants.Of(u.of.ControlPlane, u.keys), phase: state.Record.Phase, former: former, next: next, nodes: *u.step.Nodes,
		names: namesOf(u.keys, state.GivenUp), due: l.due, clock: u.Clock,
	}
	if check.phase == rotation.Prepared {
		var err error
		if check.since, err = time.Parse(time.RFC3339, state.Record.Since); err != nil {
			return fmt.Errorf("read since when the new cluster CA is in use: %w", err)
		}
	}
	result, told := u.Prober.Probe(l.key, check.probe(state.Record))
	found, seen := result.Value.(clusterCASeen)
	if !told {
		u.step.Probing, result.Problem = true, "the tenant is being probed"
	}
	switch {
	case check.phase == rotation.Prepared:
		state.Needs = append(state.Needs, found.needs(check.names, seen, told, result.Problem)...)
	case !seen:
		state.Behind = append(state.Behind, fmt.Sprintf("the tenant (%s)", result.Problem))
	default:
		state.Behind = append(state.Behind, found.behind(check.names)...)
	}
	return nil
}

// needNames are the names by which a person gives up what needs the former cluster CA, and nodes that do not get the CAs of a phase. They are
// of one rotation.
type needNames struct {
	file    string
	givenUp []string
}

func namesOf(keys *pki.KeyMaterial, givenUp []string) needNames {
	return needNames{keys.Rotation(string(pki.ClusterCA)).File(), givenUp}
}

func (n needNames) node(name string) string  { return "node/" + n.file + "/" + name }
func (n needNames) pods(owner string) string { return "pods/" + n.file + "/" + owner }
func (n needNames) otherNodes() string       { return "other-nodes/" + n.file }
func (n needNames) otherPods() string        { return "other-pods/" + n.file }
func (n needNames) unseen() string           { return "unseen/" + n.file }

func (n needNames) isGivenUp(name string) bool { return slices.Contains(n.givenUp, name) }

// nodesLeft are the nodes that a person has not given up.
func (n needNames) nodesLeft(nodes []nodekeys.Lag) []nodekeys.Lag {
	return slices.DeleteFunc(slices.Clone(nodes), func(lag nodekeys.Lag) bool { return n.isGivenUp(n.node(lag.Node)) })
}

// clusterCASeen is what a probe saw. The zero value is a tenant that has the CAs of the phase. What a person has given up is not in it.
type clusterCASeen struct {
	// published says which ConfigMaps of the tenant lack what.
	published []string
	// nodes lack the CAs of the phase, or certificates by the new one. moreNodes is how many others there are.
	nodes     []nodekeys.Lag
	moreNodes int
	// owners are workloads, as "namespace/kind/name", with pods that may trust the former CA alone. moreOwners is how many others there are.
	owners     []string
	moreOwners int
}

// behind is what does not have the CAs of the phase: ConfigMaps, and in one entry the nodes, with the ways on without them.
func (s clusterCASeen) behind(names needNames) []string {
	behind := slices.Clone(s.published)
	var nodes []string
	for _, lag := range names.nodesLeft(s.nodes) { // Some may have been given up since.
		nodes = append(nodes, "Node "+lag.String())
	}
	more, others := s.moreNodes, ""
	if names.isGivenUp(names.otherNodes()) {
		more = 0
	}
	if more > 0 {
		others = ", and " + names.otherNodes() + " for those that are not named"
	}
	if len(nodes) > 0 || more > 0 {
		behind = append(behind, fmt.Sprintf("%s; mend or delete each, or go on without it by %s in spec.keyRotation.completeAnyway%s",
			rotation.Some(nodes, more), names.node("<name>"), others))
	}
	return behind
}

// needs are what needs the former CA. unknown says why nobody knows. told is false while the look has not ended.
func (s clusterCASeen) needs(names needNames, seen, told bool, unknown string) []rotation.Need {
	if !seen {
		return []rotation.Need{unseen(names.unseen(), unknown, told)}
	}
	var needs []rotation.Need
	for _, lag := range s.nodes {
		needs = append(needs, rotation.Need{Name: names.node(lag.Node), Why: lag.Why})
	}
	if s.moreNodes > 0 {
		needs = append(needs, rotation.Need{Name: names.otherNodes(), Why: fmt.Sprintf("%d more Nodes, which are named when others of them are mended or given up", s.moreNodes)})
	}
	for _, owner := range s.owners {
		needs = append(needs, rotation.Need{Name: names.pods(owner)})
	}
	if s.moreOwners > 0 {
		needs = append(needs, rotation.Need{Name: names.otherPods(), Why: fmt.Sprintf("pods of %d more owners, which are named when others of them have restarted or are given up", s.moreOwners)})
	}
	return needs
}

// clusterCAProbe looks which cluster CAs are in a tenant and on its nodes, and takes the former one away from where API servers published it.
type clusterCAProbe struct {
	api          *tenantprobes.API
	phase        rotation.Phase
	former, next []byte
	nodes        nodekeys.Wanted
	names        needNames
	// due is true when the next step waits for this look alone.
	due   bool
	clock clock.PassiveClock
	// since is when the new CA came into use: pods that started later have both.
	since time.Time

	// last is what the last look found, and looked when that was; zero without one that found nothing.
	last   probe.Result
	looked time.Time
}

// probe looks anew in each phase. It looks once more when a person asks for the end and nothing else holds that up. It also looks anew when a
// person changes the names that are given up: the condition then has room for names that it only counted before, and the last look left out
// names that the person may have taken back.
func (v *clusterCAProbe) probe(of rotation.Record) probe.Probe {
	return probe.Probe{
		Identity: fmt.Sprintf("%s\n%s\n%s\n%t\n%s\n%s\n%q", of.Asked, of.Phase, of.Since, v.phase == rotation.Prepared && v.due, v.api.Identity(), v.next, v.names.givenUp),
		Timeout:  clusterCATimeout, Do: v.do,
	}
}

// do reports a problem while something lacks the CAs of the phase, so that the prober repeats it sooner.
func (v *clusterCAProbe) do(ctx context.Context) probe.Result {
	now := v.clock.Now()
	if v.rests(now) {
		return v.last
	}
	v.looked = time.Time{}
	seen, err := v.see(ctx)
	if err != nil {
		return probe.Result{Problem: fmt.Sprintf("the tenant's API at %s does not tell who has which cluster CA: %s", v.api.Address(), errortext.Steady(err))}
	}
	result := probe.Result{Value: seen, Problem: strings.Join(append(seen.behind(v.names), seen.owners...), ", ")}
	if result.Problem == "" {
		v.last, v.looked = result, now
	}
	return result
}

// rests reports whether the last look is good still: a rotation may be prepared for days, and a look goes through all Nodes and pods.
func (v *clusterCAProbe) rests(now time.Time) bool {
	return v.phase == rotation.Prepared && !v.due && !v.looked.IsZero() && now.Sub(v.looked) < calm
}

func (v *clusterCAProbe) see(ctx context.Context) (clusterCASeen, error) {
	var seen clusterCASeen
	c, err := v.api.Client()
	if err != nil {
		return seen, err
	}
	switch v.phase {
	case rotation.Trusting, rotation.Dropping:
		if seen.published, err = v.published(ctx, c); err != nil {
			return seen, err
		}
	case rotation.Prepared:
		owners := owners{since: v.since}
		if err := v.api.EachPod(ctx, owners.add); err != nil {
			return seen, err
		}
		seen.owners, seen.moreOwners = owners.first(v.names)
	}
	behind, err := nodekeys.Behind(ctx, v.api.Guard(), c, v.nodes)
	if err != nil {
		return seen, err
	}
	named, more := rotation.First(v.names.nodesLeft(behind), mostNamed)
	seen.nodes, seen.moreNodes = slices.Clone(named), more // The others need not stay in memory.
	return seen, nil
}

// published says which ConfigMaps of the tenant do not have the CAs of the phase.
func (v *clusterCAProbe) published(ctx context.Context, c client.Client) ([]string, error) {
	wanted, dropped := publishedIn(v.phase, v.former, v.next)
	var lacks []string
	for _, look := range []func() (string, error){
		func() (string, error) {
			return tenant.EnsurePublished(ctx, c, tenant.PublishedClusterCAs, wanted, dropped)
		},
		func() (string, error) { return tenant.LacksRootCAs(ctx, c, wanted, dropped) },
		func() (string, error) { return tenant.LacksJoiningCAs(ctx, c, wanted) },
	} {
		lack, err := look()
		if err != nil {
			return nil, err
		}
		if lack != "" {
			lacks = append(lacks, lack)
		}
	}
	return lacks, nil
}

// owners collects the owners of pods that may trust the former cluster CA alone.
type owners struct {
	since time.Time
	names map[string]bool
}

// add takes a pod that started before the new CA came into use, and that mounts CAs. Whether its program has read them again since then cannot
// be seen.
func (o *owners) add(pod *corev1.Pod) {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if ended || !pod.CreationTimestamp.Time.Before(o.since) || !mountsRootCAs(&pod.Spec) {
		return
	}
	if o.names == nil {
		o.names = map[string]bool{}
	}
	o.names[ownerOf(pod)] = true
}

func mountsRootCAs(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(volume corev1.Volume) bool {
		return volume.ConfigMap != nil && volume.ConfigMap.Name == tenant.RootCAsName ||
			volume.Projected != nil && slices.ContainsFunc(volume.Projected.Sources, func(source corev1.VolumeProjection) bool {
				return source.ConfigMap != nil && source.ConfigMap.Name == tenant.RootCAsName
			})
	})
}

// ownerOf is what a person restarts so that a pod starts anew: a Deployment in the place of its ReplicaSet, and the pod itself without an owner.
// No API server checks what owners are called: a pod whose owner has no name of Kubernetes is named itself.
func ownerOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || len(owner.Kind)+len(owner.Name) > longestOwner {
		return pod.Namespace + "/Pod/" + pod.Name
	}
	named := pod.Namespace + "/" + owner.Kind + "/" + owner.Name
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; owner.Kind == "ReplicaSet" && hash != "" {
		if deployment, made := strings.CutSuffix(owner.Name, "-"+hash); made {
			named = pod.Namespace + "/Deployment/" + deployment
		}
	}
	if len(named) > longestOwner || !ownerPattern.MatchString(named) {
		return pod.Namespace + "/Pod/" + pod.Name
	}
	return named
}

// ownerPattern is what spec.keyRotation.completeAnyway takes.
var ownerPattern = regexp.MustCompile(`^[a-z0-9-]{1,63}/[A-Za-z0-9]{1,63}/[a-z0-9.-]{1,253}$`)

// first are the owners that are named, in their order, and how many others there are. It leaves out what a person has given up.
func (o *owners) first(names needNames) (named []string, more int) {
	left := slices.DeleteFunc(slices.Sorted(maps.Keys(o.names)), func(owner string) bool { return names.isGivenUp(names.pods(owner)) })
	named, more = rotation.First(left, mostNamed)
	return slices.Clone(named), more
}
