package controllers

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/pki"
)

// etcdTimeout bounds a visit: two checks of an etcd that half answers, and a change between them.
const etcdTimeout = 5 * etcd.Timeout

// etcdVisit asks one etcd cluster how it is, again and again, and takes the next step when its members are
// not those that there shall be, or not as they shall be.
type etcdVisit struct {
	r       *Reconciler
	host    *Host
	log     logr.Logger
	cluster etcdcomponent.Cluster
	// input says what the cluster is rendered from; it does not change any more.
	input  components.Input
	keys   *pki.KeyMaterial
	signer pki.Signer
	// members are the addresses of all members that there are, come or go, by name.
	members map[string]etcd.Address
	// desired is the number of members that there shall be, pods that of pods that there are to be now.
	desired, pods int
	// formed is true once the cluster was founded; before, its members are not to be changed.
	formed bool
	// rolling is true while not all pods may be as the StatefulSet wants them.
	rolling bool
	// leaving are members whose nodes are cordoned, or were a moment ago, as caches have it.
	leaving []string
	// regarding is what events are about.
	regarding *controlplanev1.KOKControlPlane
}

func (r *Reconciler) newEtcdVisit(ctx context.Context, s *scope, cluster etcdcomponent.Cluster, state workloadState) *etcdVisit {
	v := &etcdVisit{
		r: r, host: s.host, log: ctrl.LoggerFrom(ctx).WithValues("component", cluster.Component), cluster: cluster, input: s.input, keys: s.keys,
		signer: pki.EtcdCA, members: map[string]etcd.Address{},
		desired: len(cluster.Lasting(&s.input)), pods: int(state.desired), formed: bootstrapped(s.controlPlane, cluster.Component),
		rolling: state.rolling(),
		regarding: &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.controlPlane.Namespace, Name: s.controlPlane.Name, UID: s.controlPlane.UID,
		}},
	}
	if cluster.Component == names.EtcdEvents {
		v.signer = pki.EtcdEventsCA
	}
	for _, member := range cluster.Members(&v.input) {
		if v.input.Addresses[member] == "" {
			continue
		}
		v.members[member] = etcd.Address{
			Client: cluster.ClientURL(&v.input, member), Peer: cluster.PeerURL(&v.input, member), Dial: v.dial(member),
		}
	}
	return v
}

// dial is how to connect to a member in a host cluster whose cluster IPs lead nowhere from here; nil for the
// management cluster.
func (v *etcdVisit) dial(member string) func(context.Context) (net.Conn, error) {
	if v.host.Dial == nil {
		return nil
	}
	pod, port := client.ObjectKey{Namespace: v.input.Cluster.Namespace, Name: member}, v.cluster.Ports(&v.input).Client
	return func(ctx context.Context) (net.Conn, error) { return v.host.Dial(ctx, pod, port) }
}

// ask asks, and asks again after a step, so that the answer holds what came of it.
func (v *etcdVisit) ask(ctx context.Context) probe.Answer {
	config, err := v.keys.ClientTLS(v.r.Clock, v.signer, managerUser, nil, "")
	if err != nil {
		return answerOf(&etcd.Health{Err: err})
	}
	health, changed := v.check(ctx, config), false
	if v.formed && health.Err == nil && !v.settled(health) {
		done, change, err := v.change(ctx, health, config)
		if changed = done; done {
			health = v.check(ctx, config)
		}
		health.Change = change
		if err != nil {
			health.Change = errortext.Steady(err)
		}
	}
	if v.rolling && !changed {
		if changed, health.Rollout, err = v.rollOut(ctx, health); err != nil {
			health.Rollout = errortext.Steady(err)
		}
	}
	if len(v.leaving) > 0 {
		health = v.leave(ctx, health, config, changed)
	}
	v.log.V(4).Info("Asked etcd", "problems", health.Problems(), "change", health.Change, "rollout", health.Rollout, "lead", health.Lead)
	return answerOf(health)
}

func answerOf(health *etcd.Health) probe.Answer {
	problems := health.Problems()
	for _, step := range []string{health.Change, health.Rollout, health.Lead} {
		if step != "" {
			problems = append(problems, step)
		}
	}
	return probe.Answer{Problem: strings.Join(problems, "\n"), Value: health}
}

// check asks etcd. A member that is yet to be added, or was removed, is none to miss.
func (v *etcdVisit) check(ctx context.Context, config *tls.Config) *etcd.Health {
	health, err := v.r.checkEtcd(ctx, v.members, config)
	if err != nil {
		return &etcd.Health{Err: err}
	}
	if v.formed && health.Err == nil {
		health.Members = slices.DeleteFunc(health.Members, func(m etcd.Member) bool {
			return !m.Listed && v.cluster.Ordinal(&v.input, m.Name) >= min(v.desired, v.pods)
		})
	}
	return health
}

// settled reports whether there is nothing to change, without asking the host cluster: as many members vote
// as there shall be, and nothing is left of others.
func (v *etcdVisit) settled(health *etcd.Health) bool {
	voting := 0
	for _, m := range health.Members {
		if m.Listed && !m.Learner {
			voting++
		}
	}
	return voting == v.desired && len(health.Members) == v.desired && len(v.members) == v.desired && len(health.Strangers) == 0
}

// change takes the next step and says which, or what must happen before.
func (v *etcdVisit) change(ctx context.Context, health *etcd.Health, config *tls.Config) (done bool, what string, err error) {
	state, err := v.state(ctx, health)
	if err != nil {
		return false, "", err
	}
	action := membership.Decide(state)
	name := fmt.Sprintf("%s-%d", state.Name, action.Ordinal)
	switch action.Kind {
	case membership.None:
		return false, "", nil
	case membership.Wait:
		return false, action.Reason, nil
	case membership.DeleteClaim:
		err = v.deleteClaim(ctx, name)
	default:
		err = v.r.changeEtcd(ctx, action.Kind, name, health, v.members, config)
	}
	if err != nil {
		return false, "", err
	}
	what = steps[action.Kind] + " " + name
	v.log.Info("Changed the members of etcd", "step", what)
	v.r.recorder.Eventf(v.regarding, nil, corev1.EventTypeNormal, "EtcdMembersChanged", string(action.Kind), "%s: %s", v.cluster.Component, what)
	return true, what, nil
}

// steps are what was done, for people.
var steps = map[membership.Kind]string{
	membership.AddLearner:  "added as a learner:",
	membership.Promote:     "votes now:",
	membership.MoveLeader:  "leads now:",
	membership.Remove:      "removed:",
	membership.DeleteClaim: "volume deleted of former member",
}

// state is all that the next step depends on, as etcd and the host cluster have it now.
func (v *etcdVisit) state(ctx context.Context, health *etcd.Health) (membership.State, error) {
	state := membership.State{Name: names.Object(v.input.Cluster.Name, v.cluster.Component), Desired: v.desired}
	pods, err := listPods(ctx, v.host.Live, v.input.Cluster)
	if err != nil {
		return state, err
	}
	stopping := func(member string) bool {
		return slices.ContainsFunc(pods[v.cluster.Component], func(pod corev1.Pod) bool { return pod.Name == member && pod.DeletionTimestamp != nil })
	}
	for _, m := range health.Members {
		if m.Listed {
			state.Members = append(state.Members, membership.Member{
				Name: m.Name, Ordinal: v.cluster.Ordinal(&v.input, m.Name),
				Started: m.Started, Learner: m.Learner, Leader: m.Leader, Healthy: m.Err == nil && !stopping(m.Name),
			})
		}
	}
	for _, stranger := range health.Strangers {
		state.Members = append(state.Members, membership.Member{Name: stranger, Ordinal: -1})
	}
	for _, pod := range pods[v.cluster.Component] {
		state.Pods = append(state.Pods, v.cluster.Ordinal(&v.input, pod.Name))
	}
	state.Used = v.used(pods[names.KubeAPIServer])
	claims, err := liveClaims(ctx, v.host, v.input.Cluster)
	if err != nil {
		return state, err
	}
	for _, member := range claims {
		if ordinal := v.cluster.Ordinal(&v.input, member); ordinal >= 0 {
			state.Claims = append(state.Claims, ordinal)
		}
	}
	if state.Open, err = v.open(ctx); err != nil {
		return state, err
	}
	state.Hosts, err = hostNodes(ctx, v.host, v.input.Spec.Hosting.NodeSelector)
	return state, err
}

// used are the members that kube-apiservers were told of.
func (v *etcdVisit) used(apiServers []corev1.Pod) []int {
	var told []string
	for i := range apiServers {
		for _, container := range apiServers[i].Spec.Containers {
			told = append(told, container.Args...)
		}
	}
	var used []int
	for name, address := range v.members {
		if slices.ContainsFunc(told, func(arg string) bool { return strings.Contains(arg, address.Client) }) {
			used = append(used, v.cluster.Ordinal(&v.input, name))
		}
	}
	return used
}

// open are the members whose configuration file lets them start without data; all whose file is not there.
func (v *etcdVisit) open(ctx context.Context) ([]int, error) {
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: v.input.Cluster.Namespace, Name: names.Config(v.input.Cluster.Name, v.cluster.Component)}
	if err := v.host.Live.Get(ctx, key, config); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	var ordinals []int
	for name := range v.members {
		open, err := etcdcomponent.Open(config.Data[name+".yaml"])
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s, member %s: %w", key, name, err)
		}
		if open {
			ordinals = append(ordinals, v.cluster.Ordinal(&v.input, name))
		}
	}
	return ordinals, nil
}

func (v *etcdVisit) deleteClaim(ctx context.Context, member string) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: v.input.Cluster.Namespace, Name: etcdcomponent.Claim(member)}}
	if err := v.host.Client.Delete(ctx, claim); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PersistentVolumeClaim %s of a former etcd member: %w", client.ObjectKeyFromObject(claim), err)
	}
	return nil
}

// liveClaims are the members of both etcd clusters that have a volume.
func liveClaims(ctx context.Context, host *Host, cluster client.ObjectKey) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"))
	if err := host.Live.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels(names.Labels(cluster))); err != nil {
		return nil, fmt.Errorf("list the volume claims of cluster %s: %w", cluster, err)
	}
	var members []string
	for _, claim := range list.Items {
		members = append(members, strings.TrimPrefix(claim.Name, etcdcomponent.Claim("")))
	}
	return members, nil
}

// hostNodes is the number of nodes that may carry control planes with a node selector.
func hostNodes(ctx context.Context, host *Host, selector map[string]string) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := host.Live.List(ctx, list, client.MatchingLabels(selector)); err != nil {
		return 0, fmt.Errorf("list the host nodes %v: %w", selector, err)
	}
	return len(list.Items), nil
}
