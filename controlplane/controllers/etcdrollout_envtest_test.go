//go:build envtest

package controllers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

// rolled is a settled tenant with three members, on hosts of its own.
type rolled struct {
	*tenantTest
	// first are the pods that it had at the beginning.
	first map[string]types.UID
	// held are members that do not get ready any more once they were replaced.
	held map[string]bool
}

func newRolled(t *testing.T) *rolled {
	t.Helper()
	r := &rolled{tenantTest: newTenantTest(t, whole), held: map[string]bool{}}
	r.host.prefix = r.key.Namespace + "-"
	r.tellEtcd(3)
	r.settle()
	r.first = r.members()
	if len(r.first) != 3 {
		t.Fatalf("it has the members %v", r.first)
	}
	r.host.broken = func(pod *corev1.Pod) bool { return r.held[pod.Name] && r.first[pod.Name] != pod.UID }
	return r
}

func (r *rolled) pods() []corev1.Pod {
	r.t.Helper()
	pods := &corev1.PodList{}
	if err := environment.Client.List(r.t.Context(), pods, client.InNamespace(r.key.Namespace), client.MatchingLabels(names.ComponentLabels(r.cluster, names.EtcdData))); err != nil {
		r.t.Fatal(err)
	}
	return pods.Items
}

// members are the pods that were not deleted.
func (r *rolled) members() map[string]types.UID {
	r.t.Helper()
	members := map[string]types.UID{}
	for _, pod := range r.pods() {
		if pod.DeletionTimestamp == nil {
			members[pod.Name] = pod.UID
		}
	}
	return members
}

// request changes what each member asks for.
func (r *rolled) request(cpu string) {
	r.t.Helper()
	edit(r.t, r.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.Data.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	})
}

// pass lets some time pass, more than a step takes. At any time a number of members works.
func (r *rolled) pass(working int) {
	r.t.Helper()
	for range 8 {
		if err := r.reconcile(); err != nil {
			r.t.Fatal(err)
		}
		r.expectWorking(working)
		if _, err := r.host.work(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		r.expectWorking(working)
	}
}

func (r *rolled) expectWorking(least int) {
	r.t.Helper()
	count := 0
	for _, pod := range r.pods() {
		if hostpods.Ready(&pod) && pod.DeletionTimestamp == nil {
			count++
		}
	}
	if count < least {
		r.t.Fatalf("%d members work", count)
	}
}

// expectReplaced compares which members have another pod than at the beginning.
func (r *rolled) expectReplaced(when string, want ...int32) {
	r.t.Helper()
	var got, wanted []string
	now := r.members()
	for _, name := range slices.Sorted(maps.Keys(r.first)) {
		if now[name] != r.first[name] {
			got = append(got, name)
		}
	}
	for _, ordinal := range want {
		wanted = append(wanted, statustest.PodName(names.EtcdData, ordinal))
	}
	if !slices.Equal(got, wanted) {
		r.t.Fatalf("%s the members %v were replaced, want %v", when, got, wanted)
	}
}

func (r *rolled) expectRollingOut(says string) {
	r.t.Helper()
	rolling := conditions.Get(r.controlPlane(), conditionsv1.RollingOutCondition)
	if (rolling.Status == metav1.ConditionTrue) != (says != "") || !strings.Contains(rolling.Message, says) {
		r.t.Errorf("it rolls out: %s %s, want %q", rolling.Status, rolling.Message, says)
	}
}

// expectUpToDate fails unless every member asks for that much, and is as its StatefulSet wants it.
func (r *rolled) expectUpToDate(cpu string) {
	r.t.Helper()
	set := &appsv1.StatefulSet{}
	if err := environment.Client.Get(r.t.Context(), r.inNamespace("blue-etcd-data"), set); err != nil {
		r.t.Fatal(err)
	}
	for _, pod := range r.pods() {
		if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != cpu || !hostpods.Ready(&pod) ||
			pod.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision {
			r.t.Errorf("%s asks for %s, want %s; its labels are %v", pod.Name, got, cpu, pod.Labels)
		}
	}
	r.expectRollingOut("")
}

// away lets the host node of the first member go off or come back.
func (r *rolled) away(off bool) {
	r.t.Helper()
	ctx, pod := r.t.Context(), &corev1.Pod{}
	if err := environment.Client.Get(ctx, r.inNamespace(statustest.PodName(names.EtcdData, 0)), pod); err != nil {
		r.t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
	r.host.off[node.Name] = off
	if !off {
		if err := environment.Client.Delete(ctx, node); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	if err := environment.Client.Create(ctx, node); err != nil {
		r.t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	for _, object := range []client.Object{node, pod} {
		if err := environment.Client.Status().Update(ctx, object); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestEtcdMembersAreReplacedOneAtATime(t *testing.T) {
	t.Parallel()
	r := newRolled(t)
	r.request("60m")
	// The first one leads, and goes last.
	for _, step := range []struct {
		held     int32
		replaced []int32
	}{{2, []int32{2}}, {1, []int32{1, 2}}, {0, []int32{0, 1, 2}}} {
		member := statustest.PodName(names.EtcdData, step.held)
		r.held[member] = true
		r.pass(2)
		r.expectReplaced("while "+member+" starts", step.replaced...)
		if step.held > 0 {
			r.expectRollingOut("member " + member + " is not ready")
		}
		delete(r.held, member)
	}
	r.settle()
	r.expectUpToDate("60m")
}

func TestASecondChangeWhileAMemberOfEtcdRestartsTakesNoOtherAway(t *testing.T) {
	t.Parallel()
	r := newRolled(t)
	r.held[statustest.PodName(names.EtcdData, 1)] = true
	r.request("60m")
	r.pass(2)
	r.expectReplaced("after the first change", 1, 2)
	second := r.members()[statustest.PodName(names.EtcdData, 2)]

	r.request("70m")
	r.pass(2)
	r.expectReplaced("after the second change", 1, 2)
	if r.members()[statustest.PodName(names.EtcdData, 2)] != second {
		t.Error("a member that works was taken away while another one starts")
	}
	r.expectRollingOut("member blue-etcd-data-1 is not ready")

	clear(r.held)
	r.pass(2)
	r.settle()
	r.expectReplaced("at the end", 0, 1, 2)
	r.expectUpToDate("70m")
}

func TestNoMemberOfEtcdIsTakenAwayWhileAHostIsOff(t *testing.T) {
	r := newRolled(t)
	r.away(true)
	r.request("60m")
	r.pass(2)
	r.expectReplaced("while a host is off")
	r.expectRollingOut("the host cluster does not hear from " + r.host.prefix + "0, where member blue-etcd-data-0 is")

	r.away(false)
	r.pass(2)
	r.settle()
	r.expectReplaced("at the end", 0, 1, 2)
	r.expectUpToDate("60m")
}

func TestAHostThatGoesOffInTheMiddleHoldsTheRolloutOfEtcd(t *testing.T) {
	r := newRolled(t)
	r.held[statustest.PodName(names.EtcdData, 2)] = true
	r.request("60m")
	r.pass(2)
	r.expectReplaced("at first", 2)

	r.away(true)
	r.pass(1)
	clear(r.held)
	r.pass(1)
	r.expectReplaced("when its host went off", 2)
	r.expectWorking(2)
	r.expectRollingOut("where member blue-etcd-data-0 is")

	r.away(false)
	r.settle()
	r.expectUpToDate("60m")
}

func TestAChangeThatBreaksAMemberOfEtcdIsTakenBack(t *testing.T) {
	t.Parallel()
	r := newRolled(t)
	before := r.pods()[0].Spec.Containers[0].Resources.Requests.Cpu().String()
	r.host.broken = func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Resources.Requests.Cpu().String() == "66m" }
	r.request("66m")
	r.pass(2)
	r.expectReplaced("by the bad change", 2)
	r.expectRollingOut("member blue-etcd-data-2 is not ready")

	edit(t, r.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Data.Resources = nil })
	r.pass(2)
	r.settle()
	r.expectReplaced("at the end", 2)
	r.expectUpToDate(before)
}

// Nobody can ask an etcd that never had a quorum, and its members are replaced all the same.
func TestAnEtcdThatNeverStartedIsMended(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, whole)
	tt.tellEtcd(3)
	tt.host.broken = func(pod *corev1.Pod) bool {
		return pod.Labels[names.ComponentLabel] == names.EtcdData && pod.Spec.Containers[0].Resources.Requests.Cpu().String() != "60m"
	}
	r := &rolled{tenantTest: tt}
	r.pass(0)
	r.first = r.members()
	r.request("60m")
	r.settle()
	r.expectReplaced("at the end", 0, 1, 2)
	r.expectUpToDate("60m")
	if !conditions.IsTrue(r.controlPlane(), conditionsv1.AvailableCondition) {
		t.Error("it is not available")
	}
}
