package operator

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
)

func TestOnlyTheVolumeOfTheRemovedMemberIsDeleted(t *testing.T) {
	const request = "delete PersistentVolumeClaim kok-data-blue-etcd-data-1"
	for name, test := range map[string]struct {
		is    func(t *testing.T, e *losingEtcd)
		fails error
		// left is true when a claim is there afterwards.
		left bool
		says string
	}{
		"it is left": {is: func(*testing.T, *losingEtcd) {}, says: "deleted the volume of removed member blue-etcd-data-1"},
		"it is another one by now": {is: func(t *testing.T, e *losingEtcd) {
			e.renew(t, &corev1.PersistentVolumeClaim{}, "kok-data-blue-etcd-data-1", func(o client.Object) { o.SetUID("new") })
		}, left: true, says: "deleted the volume of removed member blue-etcd-data-1"},
		"it may not be deleted": {is: func(*testing.T, *losingEtcd) {}, fails: errRefused, left: true,
			says: "delete team/kok-data-blue-etcd-data-1 of a removed etcd member: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			e.health.Members = e.health.Members[:1]
			e.pods, e.claims = e.pods[:1], e.claims[:2]
			c := e.cluster(t)
			c.Input.Spec.Etcd.Data.Replicas = ptr.To[int32](1)
			e.before = func(is string) error {
				if is != request {
					return nil
				}
				test.is(t, e)
				return test.fails
			}
			_, says := c.step(t.Context(), e.health, func(ctx context.Context, health *etcd.Health) (decision, error) {
				return c.decideMembers(ctx, health, nil, false)
			})
			if says != test.says || !slices.Equal(e.writes, []string{request}) {
				t.Errorf("it writes %q and says %q", e.writes, says)
			}
			err := e.host.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "kok-data-blue-etcd-data-1"}, &corev1.PersistentVolumeClaim{})
			if (err == nil) != test.left {
				t.Errorf("afterwards the claim is there: %v", err)
			}
		})
	}
}

func TestAnAPIServerThatHasEndedUsesNoMember(t *testing.T) {
	e := newLosingEtcd()
	c := e.cluster(t)
	told := func(phase corev1.PodPhase, urls string) corev1.Pod {
		pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"--etcd-servers=" + urls}}}}}
		pod.Status.Phase = phase
		return pod
	}
	first, last := c.members["blue-etcd-data-0"].Client, c.members["blue-etcd-data-2"].Client
	if first == "" || last == "" {
		t.Fatalf("the members are %v", c.members)
	}
	for name, test := range map[string]struct {
		second corev1.PodPhase
		want   []int
	}{
		"one that runs": {corev1.PodRunning, []int{0, 2}}, "one that was evicted": {corev1.PodFailed, []int{0}}, "one that was stopped": {corev1.PodSucceeded, []int{0}},
	} {
		used := c.usedMembers([]corev1.Pod{told(corev1.PodRunning, first), told(test.second, first+","+last)})
		slices.Sort(used)
		if !slices.Equal(used, test.want) {
			t.Errorf("beside %s the members %v are used, want %v", name, used, test.want)
		}
	}
}

// etcdctlIn begins a command in the pod of a member.
func etcdctlIn(member string) string {
	return "kubectl --namespace team exec " + member + " --container etcd -- etcdctl --endpoints https://127.0.0.1:2379 --cacert /etc/etcd/pki/ca.crt " +
		"--cert /etc/etcd/pki/" + member + ".crt --key /etc/etcd/pki/" + member + ".key"
}

func TestTheCommandThatRemovesAStrangerIsToldWhole(t *testing.T) {
	const stranger = `etcd lists the member "https://192.0.2.1:2380" (ab12), which is not of this control plane. To remove it, `
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		want string
	}{
		"all others work":               {func(*losingEtcd) {}, "run: " + etcdctlIn("blue-etcd-data-0") + " member remove ab12"},
		"another one leads":             {func(e *losingEtcd) { e.health.Members[0].Leader, e.health.Members[2].Leader = false, true }, "run: " + etcdctlIn("blue-etcd-data-0") + " member remove ab12"},
		"the first one reports CORRUPT": {func(e *losingEtcd) { e.health.Members[0].Err = errRefused }, "run: " + etcdctlIn("blue-etcd-data-0") + " member remove ab12"},
		"the first one is down":         {func(e *losingEtcd) { e.down(0) }, "run: " + etcdctlIn("blue-etcd-data-1") + " member remove ab12"},
		"the first one knows no leader": {func(e *losingEtcd) { e.health.Members[0].Follows = false }, "run: " + etcdctlIn("blue-etcd-data-1") + " member remove ab12"},
		"the first one learns":          {func(e *losingEtcd) { e.health.Members[0].Learner = true }, "run: " + etcdctlIn("blue-etcd-data-1") + " member remove ab12"},
		"none works":                    {func(e *losingEtcd) { e.down(0); e.down(1); e.down(2) }, "bring back another member that votes, in whose pod etcdctl can do it"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			e.health.UnknownMembers = []etcd.UnknownMember{{Name: "https://192.0.2.1:2380", ID: 0xab12}}
			test.is(e)
			c := e.cluster(t)
			if report := c.operator.Run(t.Context(), withKeys(t, c.Task)); report.Change != stranger+test.want || report.Recovery != "" || len(e.writes)+len(e.changes) > 0 {
				t.Errorf("it writes %q and %q, and says %q", e.writes, e.changes, report.text())
			}
		})
	}
}

// The second member was replaced: its pod and its volume are new, and wait for it to be added.
func TestANewPodIsNotSaidToStopWhenFactsCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		says string
	}{
		"there is a pod":     {is: func(*losingEtcd) {}, says: "pod blue-etcd-data-1 may be new or left of a removed member: the change of members goes on when the host cluster tells which"},
		"there is no pod":    {is: func(e *losingEtcd) { e.pods = slices.Delete(e.pods, 1, 2) }, says: "the volume of blue-etcd-data-1 may be new or left of a removed member: the change of members goes on when the host cluster tells which"},
		"there is no volume": {is: func(e *losingEtcd) { e.pods, e.claims = slices.Delete(e.pods, 1, 2), slices.Delete(e.claims, 1, 2) }, says: "added as a learner: blue-etcd-data-1"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			e.renewed(t)
			test.is(e)
			e.before = func(request string) error {
				if request == "list ServiceList" {
					return errRefused
				}
				return nil
			}
			c := e.cluster(t)
			report := c.operator.Run(t.Context(), withKeys(t, c.Task))
			if report.Change != test.says || !report.FactsMissing || len(e.writes) > 0 {
				t.Errorf("it writes %q, and says %q", e.writes, report.text())
			}
		})
	}
}

// The third member was given up by a restore: its host node is off, so that its pod cannot stop.
func TestAMemberIsAddedWhileThePodOfAnotherOneIsStuck(t *testing.T) {
	const stuck = "pod blue-etcd-data-2, which is no member any more, cannot stop while host node n2 is not heard from: bring it back, or delete its Node if it is gone for good"
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		says string
	}{
		"the second member is missing": {is: func(e *losingEtcd) {
			e.unlist(1)
			e.pods, e.claims = slices.Delete(e.pods, 1, 2), slices.Delete(e.claims, 1, 2)
		}, says: "added as a learner: blue-etcd-data-1"},
		"no other one is missing": {is: func(*losingEtcd) {}, says: stuck},
		"its host node is out of service": {is: func(e *losingEtcd) {
			e.nodes[2].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		}, says: "pod blue-etcd-data-2, which is no member any more, is stopping"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			e.unlist(2)
			terminating(&e.pods[2])
			e.nodes[2].Status.Conditions[1].Status = corev1.ConditionUnknown
			test.is(e)
			c := e.cluster(t)
			_, says := c.step(t.Context(), e.health, func(ctx context.Context, health *etcd.Health) (decision, error) {
				return c.decideMembers(ctx, health, nil, false)
			})
			if says != test.says || len(e.writes) > 0 {
				t.Errorf("it writes %q and says %q", e.writes, says)
			}
		})
	}
}
