//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

// toldEtcd are two etcd clusters that say and do what the controller asks, as real ones do in another test.
// A member answers while its pod is there and ready, to a client that it knows and that knows it.
type toldEtcd struct {
	t         *testing.T
	namespace string
	listed    map[string]*etcd.Member

	lock sync.Mutex
	// leads are the members that took the lead, by the common beginning of the names of their cluster's members.
	leads map[string]string
	// strangers tells each time when a member and the manager did not know each other, though both were of present phases.
	strangers []string
}

func (e *toldEtcd) refused() []string {
	e.lock.Lock()
	defer e.lock.Unlock()
	return slices.Clone(e.strangers)
}

// tellEtcd gives a tenant such etcds.
func (tt *tenantTest) tellEtcd(members int) *toldEtcd {
	e := &toldEtcd{t: tt.t, namespace: tt.key.Namespace, listed: map[string]*etcd.Member{}, leads: map[string]string{}}
	for _, component := range etcdcomponent.Components() {
		for i := range members {
			e.listed[statustest.PodName(component, int32(i))] = &etcd.Member{Name: statustest.PodName(component, int32(i)), Listed: true}
		}
	}
	tt.program.etcd, tt.told = operator.Etcd{Check: e.check, Change: e.change}, e
	return e
}

func (e *toldEtcd) check(ctx context.Context, members map[string]etcd.Address, config *tls.Config) (*etcd.Health, error) {
	health := &etcd.Health{}
	for name := range members {
		member := etcd.Member{Name: name}
		if listed := e.listed[name]; listed != nil {
			pod := &corev1.Pod{}
			err := environment.Client.Get(ctx, client.ObjectKey{Namespace: e.namespace, Name: name}, pod)
			if err == nil && (!hostpods.Ready(pod) || pod.DeletionTimestamp != nil) {
				err = fmt.Errorf("%s does not answer", name)
			} else if err == nil {
				err = e.knows(ctx, pod, config)
			}
			listed.Started, listed.Err = listed.Started || err == nil, err
			listed.Answered = err == nil
			member = *listed
		}
		health.Members = append(health.Members, member)
	}
	slices.SortFunc(health.Members, func(a, b etcd.Member) int { return strings.Compare(a.Name, b.Name) })
	elect(health, e.leader)
	return health, nil
}

// knows says why a member and the manager do not know each other while the member's CA rotates; nil if they do.
func (e *toldEtcd) knows(ctx context.Context, pod *corev1.Pod, config *tls.Config) error {
	files, err := memberFiles(pod, certsOf(e.t, e.namespace, pod.Labels[names.ComponentLabel]))
	if err == nil {
		err = letsIn(pod.Name, files, config)
	}
	if err != nil && ctx.Err() == nil {
		e.lock.Lock()
		defer e.lock.Unlock()
		e.strangers = append(e.strangers, err.Error())
	}
	return err
}

// leader is the member that took the lead in the cluster of a member; empty for none.
func (e *toldEtcd) leader(of string) string {
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.leads[clusterOf(of)]
}

// clusterOf is the common beginning of the names of all members of a member's cluster.
func clusterOf(member string) string { return member[:strings.LastIndex(member, "-")] }

// elect lets the member lead that took the lead, or else the first one that can. Without a quorum no member answers who the members are.
func elect(health *etcd.Health, leader func(of string) string) {
	voters, answer := 0, 0
	for _, m := range health.Members {
		if m.Listed && !m.Learner {
			voters++
			if m.Answered {
				answer++
			}
		}
	}
	if answer < voters/2+1 {
		health.Err = errors.New("no leader")
		for i := range health.Members {
			health.Members[i].Listed = false
		}
		return
	}
	can := func(m etcd.Member) bool { return m.Answered && !m.Learner }
	leads := slices.IndexFunc(health.Members, func(m etcd.Member) bool { return m.Name == leader(m.Name) && can(m) })
	if leads < 0 {
		leads = slices.IndexFunc(health.Members, can)
	}
	for i := range health.Members {
		m := &health.Members[i]
		m.Follows, m.Leader = m.Answered, i == leads
	}
}

func (e *toldEtcd) change(_ context.Context, kind membership.Kind, name string, _ *etcd.Health, _ map[string]etcd.Address, _ *tls.Config) error {
	switch kind {
	case membership.AddLearner:
		e.listed[name] = &etcd.Member{Name: name, Listed: true, Learner: true}
	case membership.Promote:
		e.listed[name].Learner = false
	case membership.Remove:
		delete(e.listed, name)
	case membership.MoveLeader:
		e.lock.Lock()
		defer e.lock.Unlock()
		e.leads[clusterOf(name)] = name
	default:
		return fmt.Errorf("%s of %s is not expected", kind, name)
	}
	return nil
}

// scaled is a settled tenant with single members, and host nodes for more.
func scaled(t *testing.T) *tenantTest {
	t.Helper()
	tt := newTenantTest(t, small)
	tt.tellEtcd(1)
	threeHostNodes(t)
	tt.settle()
	return tt
}

func threeHostNodes(t *testing.T) {
	t.Helper()
	for i := range 3 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("scale-%d", i), Labels: map[string]string{controlplanev1.HostNodeLabel: "true"}}}
		if err := environment.Client.Create(t.Context(), node); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

func (tt *tenantTest) scale(members int32) {
	tt.t.Helper()
	edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Data.Replicas = &members })
	tt.settle()
}

// roll replaces the pods of API servers, as a rollout does.
func (tt *tenantTest) roll() {
	tt.t.Helper()
	if err := environment.Client.DeleteAllOf(tt.t.Context(), &corev1.Pod{}, client.InNamespace(tt.key.Namespace),
		client.MatchingLabels(names.ComponentLabels(tt.cluster, names.KubeAPIServer)), client.GracePeriodSeconds(0)); err != nil {
		tt.t.Fatal(err)
	}
	tt.settle()
}

// expectMembers compares what there is of members: pods, volumes, Services, members, and whom API servers are told of.
func (tt *tenantTest) expectMembers(when string, there, told int) {
	tt.t.Helper()
	counts := map[string]int{}
	for _, object := range tt.objects() {
		if object.GetLabels()[names.ComponentLabel] == names.EtcdData {
			counts[object.GetObjectKind().GroupVersionKind().Kind]++
		}
	}
	for _, kind := range []string{"Pod", "PersistentVolumeClaim", "Service"} {
		if counts[kind] != there {
			tt.t.Errorf("%s there are %d of %s, want %d", when, counts[kind], kind, there)
		}
	}
	if got := int(etcdclusters.Voters(tt.controlPlane(), names.EtcdData)); got != there {
		tt.t.Errorf("%s %d members vote, want %d", when, got, there)
	}
	apiServer := &appsv1.DaemonSet{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-kube-apiserver"), apiServer); err != nil {
		tt.t.Fatal(err)
	}
	for _, arg := range apiServer.Spec.Template.Spec.Containers[0].Args {
		if servers, ok := strings.CutPrefix(arg, "--etcd-servers="); ok && strings.Count(servers, "https://") != told {
			tt.t.Errorf("%s API servers are told of %s, want %d", when, servers, told)
		}
	}
}

// revisionsOf counts the renderings that a component has adopted.
func (tt *tenantTest) revisionsOf(component string) int {
	count := 0
	for _, object := range tt.objects() {
		if object.GetLabels()[revision.ComponentLabel] == component {
			count++
		}
	}
	return count
}

func (tt *tenantTest) firstMember() (*corev1.Pod, *appsv1.StatefulSet) {
	tt.t.Helper()
	pod, set := &corev1.Pod{}, &appsv1.StatefulSet{}
	for name, object := range map[string]client.Object{"blue-etcd-data-0": pod, "blue-etcd-data": set} {
		if err := environment.Client.Get(tt.t.Context(), tt.inNamespace(name), object); err != nil {
			tt.t.Fatal(err)
		}
	}
	return pod, set
}

func TestEtcdIsScaledUpAndDown(t *testing.T) {
	tt := scaled(t)
	tt.expectMembers("before", 1, 1)
	pod, set := tt.firstMember()
	etcds, apiServers := tt.revisionsOf(names.EtcdData), tt.revisionsOf(names.KubeAPIServer)

	tt.scale(3)
	tt.expectMembers("after the first change", 3, 3)
	tt.roll()
	if got := tt.revisionsOf(names.KubeAPIServer); got != apiServers+1 {
		t.Errorf("API servers adopted %d renderings for one change of members", got-apiServers)
	}
	if up := conditions.Get(tt.controlPlane(), conditionsv1.ScalingUpCondition); up.Status != metav1.ConditionFalse {
		t.Errorf("it still scales up: %s", up.Message)
	}

	tt.scale(1)
	tt.expectMembers("while API servers use all", 3, 1)
	down := conditions.Get(tt.controlPlane(), conditionsv1.ScalingDownCondition)
	if down.Status != metav1.ConditionTrue || !strings.Contains(down.Message, "blue-etcd-data-2 goes when no kube-apiserver uses it") {
		t.Errorf("it scales down: %v", down)
	}
	tt.roll()
	tt.expectMembers("at the end", 1, 1)
	if down := conditions.Get(tt.controlPlane(), conditionsv1.ScalingDownCondition); down.Status != metav1.ConditionFalse {
		t.Errorf("it still scales down: %s", down.Message)
	}

	podNow, setNow := tt.firstMember()
	if podNow.UID != pod.UID || setNow.UID != set.UID || !equality.Semantic.DeepEqual(setNow.Spec.Template, set.Spec.Template) || tt.revisionsOf(names.EtcdData) != etcds {
		t.Error("the member that stayed has another pod, template or rendering")
	}
}

func TestMoreMembersThanHostNodesAreRefusedWithTheReason(t *testing.T) {
	tt := scaled(t)
	tt.scale(7)
	up := conditions.Get(tt.controlPlane(), conditionsv1.ScalingUpCondition)
	if up.Status != metav1.ConditionTrue || !strings.Contains(up.Message, "7 members need as many host nodes, and there are 3") {
		t.Errorf("it scales up: %v", up)
	}
	if got := etcdclusters.Voters(tt.controlPlane(), names.EtcdData); got != 1 {
		t.Errorf("%d members vote", got)
	}
	for _, condition := range []string{conditionsv1.AvailableCondition, conditionsv1.EtcdClusterHealthyCondition} {
		if !conditions.IsTrue(tt.controlPlane(), condition) {
			t.Errorf("%s is not true any more: %v", condition, conditions.Get(tt.controlPlane(), condition))
		}
	}
	tt.scale(1)
	tt.expectMembers("when it was set back", 1, 1)
	if up := conditions.Get(tt.controlPlane(), conditionsv1.ScalingUpCondition); up.Status != metav1.ConditionFalse {
		t.Errorf("it still scales up: %s", up.Message)
	}
}

// Whoever deletes the workload in the middle of a change gets all its pods back, and not those of the end.
func TestAWorkloadDeletedWhileItsClusterShrinksComesBackWhole(t *testing.T) {
	tt := scaled(t)
	tt.scale(3)
	tt.roll()
	tt.scale(1)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "blue-etcd-data"}}
	if err := environment.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	tt.settle()
	if _, set := tt.firstMember(); *set.Spec.Replicas != 3 {
		t.Errorf("it came back with %d pods, while 3 members vote", *set.Spec.Replicas)
	}
}
