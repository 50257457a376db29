package events

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

var eventTime = time.Date(2026, 7, 1, 2, 0, 0, 0, time.UTC)

// told is a settled control plane of three members and three API servers, changed.
func told(changes ...func(*controlplanev1.KOKControlPlane)) *controlplanev1.KOKControlPlane {
	c := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue", UID: "1"}}
	c.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.35.1", Replicas: 3}}
	c.Status.DesiredReplicas, c.Status.Replicas = ptr.To[int32](3), ptr.To[int32](3)
	for _, name := range []string{"data", "events"} {
		c.Status.Etcd = append(c.Status.Etcd, controlplanev1.EtcdClusterStatus{
			Name: name, Replicas: ptr.To[int32](3), Bootstrapped: ptr.To(true), Members: members(3),
		})
	}
	is(conditionsv1.InitializedCondition, metav1.ConditionTrue, 0, "")(c)
	for _, name := range []string{conditionsv1.RollingOutCondition, conditionsv1.ScalingUpCondition, conditionsv1.ScalingDownCondition} {
		is(name, metav1.ConditionFalse, 0, "")(c)
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

// is gives a condition a status since some minutes after eventTime.
func is(name string, status metav1.ConditionStatus, minutes int, message string) func(*controlplanev1.KOKControlPlane) {
	return func(c *controlplanev1.KOKControlPlane) {
		c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(present metav1.Condition) bool { return present.Type == name })
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: name, Status: status, Reason: "Test", Message: message,
			LastTransitionTime: metav1.NewTime(eventTime.Add(time.Duration(minutes) * time.Minute)),
		})
	}
}

func members(voters int, learners ...string) []controlplanev1.EtcdMemberStatus {
	var all []controlplanev1.EtcdMemberStatus
	for i := range voters {
		all = append(all, controlplanev1.EtcdMemberStatus{Name: names.Object("blue", names.EtcdData) + string(rune('0'+i)), State: controlplanev1.EtcdMemberVoter})
	}
	for _, name := range learners {
		all = append(all, controlplanev1.EtcdMemberStatus{Name: name, State: controlplanev1.EtcdMemberLearner})
	}
	return all
}

func data(wanted int32, listed []controlplanev1.EtcdMemberStatus) func(*controlplanev1.KOKControlPlane) {
	return func(c *controlplanev1.KOKControlPlane) {
		c.Status.Etcd[0].Replicas, c.Status.Etcd[0].Members = ptr.To(wanted), listed
	}
}

// eventsBegin has the etcd with the events be founded anew.
func eventsBegin(automatic *bool) func(*controlplanev1.KOKControlPlane) {
	return func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.Recovery = controlplanev1.EtcdRecoversAutomatically
		c.Status.Etcd[1].Restoring = &controlplanev1.EtcdRestoringStatus{RequestedAt: metav1.NewTime(eventTime), Automatic: automatic}
	}
}

func apiServers(exist, desired int32) func(*controlplanev1.KOKControlPlane) {
	return func(c *controlplanev1.KOKControlPlane) {
		c.Status.Replicas, c.Status.DesiredReplicas = ptr.To(exist), ptr.To(desired)
	}
}

func atVersions(running ...string) func(*controlplanev1.KOKControlPlane) {
	return func(c *controlplanev1.KOKControlPlane) {
		c.Status.Versions = nil
		for _, version := range running {
			c.Status.Versions = append(c.Status.Versions, clusterv1.StatusVersion{Version: version})
		}
	}
}

func adopts(adopted ...revision.Adoption) *Deeds { return &Deeds{adopted: adopted} }

func rotates(rotated ...Rotated) *Deeds { return &Deeds{rotated: rotated} }

func encryptionKey(from, to rotation.Phase) Rotated {
	return Rotated{Kind: controlplanev1.EncryptionKeyKind, What: "encryption key", From: from, To: to}
}

func TestEventsSayWhatChangesAndNothingTwice(t *testing.T) {
	type change = func(*controlplanev1.KOKControlPlane)
	const up, down, rolling = conditionsv1.ScalingUpCondition, conditionsv1.ScalingDownCondition, conditionsv1.RollingOutCondition
	fresh := is(conditionsv1.InitializedCondition, metav1.ConditionFalse, 0, "")
	for name, test := range map[string]struct {
		before, after []change
		did           *Deeds
		want          []string
	}{
		"a settled control plane says nothing": {},
		"a person has the events begin anew": {
			after: []change{eventsBegin(nil)},
			want:  []string{"Warning EtcdRestoreStarted Restore: etcd-events is founded anew, empty: spec.etcd.events.foundAnewAt asks for it"},
		},
		"the events begin anew by themselves, once": {
			before: []change{eventsBegin(nil)},
			after:  []change{eventsBegin(ptr.To(true))},
		},
		"the events begin anew by themselves": {
			after: []change{eventsBegin(ptr.To(true))},
			want:  []string{"Warning EtcdRestoreStarted Restore: etcd-events is founded anew, empty: no quorum can return, and spec.etcd.recovery is Automatic"},
		},
		"nothing is left of the former events": {
			before: []change{eventsBegin(ptr.To(true))},
			after:  []change{func(c *controlplanev1.KOKControlPlane) { c.Status.Etcd[1].RestoredAt = metav1.NewTime(eventTime) }},
			want:   []string{"Warning EtcdRestored Restore: etcd-events was founded anew, as was asked for at 2026-07-01T02:00:00Z"},
		},
		"a person has the data begin anew from a survivor": {
			after: []change{func(c *controlplanev1.KOKControlPlane) {
				c.Status.Etcd[0].Restoring = &controlplanev1.EtcdRestoringStatus{RequestedAt: metav1.NewTime(eventTime), Survivor: "m"}
			}},
			want: []string{"Warning EtcdRestoreStarted Restore: etcd-data is founded anew from the data of member m: spec.etcd.restore asks for it"},
		},
		"one that is made says nothing of its rollouts and numbers": {
			before: []change{fresh, is(rolling, metav1.ConditionTrue, 0, ""), apiServers(1, 1), data(1, members(1))},
			after:  []change{is(rolling, metav1.ConditionFalse, 3, "")},
		},
		"a component takes another rendering for a change of the spec": {
			did:  adopts(revision.Adoption{Component: names.EtcdData, Name: "blue-etcd-data-4", Number: 4, From: "v1.35.1", To: "v1.35.1"}),
			want: []string{"Normal RolloutStarted Adopt: etcd-data takes a new rendering, revision 4: the spec, or what it takes from the Cluster, changed"},
		},
		"a component takes another rendering when the rollout's time has passed": {
			did:  adopts(revision.Adoption{Component: names.KubeScheduler, Number: 2, From: "v1.35.1", To: "v1.35.1", Due: true}),
			want: []string{"Normal RolloutStarted Adopt: kube-scheduler takes a new rendering, revision 2: spec.rollout.after has passed"},
		},
		"a component takes a former rendering again": {
			did:  adopts(revision.Adoption{Component: names.KubeAPIServer, Number: 5, From: "v1.35.1", To: "v1.35.1", Due: true, Again: 3}),
			want: []string{"Normal RolloutStarted Adopt: kube-apiserver takes a new rendering, revision 5: spec.rollout.renderings names revision 3, which it takes again"},
		},
		"the addresses of Services are no rendering that pods have": {
			did: func() *Deeds { d := &Deeds{}; d.Adopt(revision.Adoption{Component: names.Services}); return d }(),
		},
		"a rendering of an older program starts no upgrade": {
			did:  adopts(revision.Adoption{Component: names.KubeAPIServer, Number: 2, To: "v1.36.3"}),
			want: []string{"Normal RolloutStarted Adopt: kube-apiserver takes a new rendering, revision 2: the spec, or what it takes from the Cluster, changed"},
		},
		"an upgrade starts with the API servers, once": {
			did: adopts(
				revision.Adoption{Component: names.EtcdData, Number: 2, From: "v1.35.1", To: "v1.36.3"},
				revision.Adoption{Component: names.KubeAPIServer, Number: 3, From: "v1.35.1", To: "v1.36.3"}),
			want: []string{
				"Normal RolloutStarted Adopt: etcd-data takes a new rendering, revision 2: the version was v1.35.1 and is v1.36.3",
				"Normal RolloutStarted Adopt: kube-apiserver takes a new rendering, revision 3: the version was v1.35.1 and is v1.36.3",
				"Normal UpgradeStarted Upgrade: The upgrade from v1.35.1 to v1.36.3 reaches the API servers",
			},
		},
		"an upgrade under way says nothing": {before: []change{atVersions("v1.35.1", "v1.36.3")}, after: []change{atVersions("v1.35.1", "v1.36.3")}},
		"an upgrade is over when the last pod is at the new version": {
			before: []change{atVersions("v1.35.1", "v1.36.3")}, after: []change{atVersions("v1.36.3")}, did: &Deeds{UpgradeTook: 754 * time.Second},
			want: []string{"Normal UpgradeFinished Upgrade: The upgrade from v1.35.1 to v1.36.3 is over, after 12m34s"},
		},
		"an upgrade that was taken back is over too": {
			before: []change{atVersions("v1.35.1", "v1.35.2")}, after: []change{atVersions("v1.35.1")},
			want: []string{"Normal UpgradeFinished Upgrade: The upgrade from v1.35.2 to v1.35.1 is over"},
		},
		"versions that are known again after a move are no upgrade": {before: []change{atVersions()}, after: []change{atVersions("v1.36.3")}},
		"a rollout is over": {
			before: []change{is(rolling, metav1.ConditionTrue, 0, "")}, after: []change{is(rolling, metav1.ConditionFalse, 5, "")},
			want: []string{"Normal RolloutFinished RollOut: All pods are up to date, after 5m0s"},
		},
		"a rollout of which nobody knows is not over": {
			before: []change{is(rolling, metav1.ConditionTrue, 0, "")}, after: []change{is(rolling, metav1.ConditionUnknown, 5, "")},
		},
		"etcd begins to grow": {
			after: []change{data(5, members(3)), is(up, metav1.ConditionTrue, 1, "etcd-data: 3 of 5 members vote")},
			want:  []string{"Normal ScaleStarted Scale-etcd-data: etcd-data goes from 3 to 5 members"},
		},
		"etcd grows": {before: []change{data(5, members(3, "x"))}, after: []change{data(5, members(4))}},
		"etcd has grown": {
			before: []change{data(5, members(4, "x")), is(up, metav1.ConditionTrue, 1, "etcd-data: 4 of 5 members vote")},
			after:  []change{data(5, members(5)), is(up, metav1.ConditionFalse, 8, "")},
			want:   []string{"Normal ScaleFinished Scale-etcd-data: etcd-data has as many voting members as are wanted, 5, after 7m0s"},
		},
		"etcd has shrunk": {
			before: []change{data(1, members(2)), is(down, metav1.ConditionTrue, 1, "etcd-data: 2 members exist, 1 are wanted")},
			after:  []change{data(1, members(1)), is(down, metav1.ConditionFalse, 2, "")},
			want:   []string{"Normal ScaleFinished Scale-etcd-data: etcd-data has as many voting members as are wanted, 1, after 1m0s"},
		},
		"API servers begin to be more": {
			after: []change{apiServers(3, 5), is(up, metav1.ConditionTrue, 1, "kube-apiserver: 3 of 5 pods exist")},
			want:  []string{"Normal ScaleStarted Scale-kube-apiserver: kube-apiserver goes from 3 to 5 pods"},
		},
		"API servers become more": {
			before: []change{apiServers(3, 5), is(up, metav1.ConditionTrue, 1, "kube-apiserver: 3 of 5 pods exist")},
			after:  []change{apiServers(4, 5), is(up, metav1.ConditionTrue, 1, "kube-apiserver: 4 of 5 pods exist")},
		},
		"API servers are more": {
			before: []change{apiServers(4, 5), is(up, metav1.ConditionTrue, 1, "kube-apiserver: 4 of 5 pods exist")},
			after:  []change{apiServers(5, 5), is(up, metav1.ConditionFalse, 3, "")},
			want:   []string{"Normal ScaleFinished Scale-kube-apiserver: kube-apiserver has as many pods as are wanted, 5, after 2m0s"},
		},
		"API servers are more while etcd still grows": {
			before: []change{apiServers(3, 5), is(up, metav1.ConditionTrue, 1, "etcd-data: 3 of 5 members vote\nkube-apiserver: 3 of 5 pods exist")},
			after:  []change{apiServers(5, 5), is(up, metav1.ConditionTrue, 1, "etcd-data: 3 of 5 members vote")},
			want:   []string{"Normal ScaleFinished Scale-kube-apiserver: kube-apiserver has as many pods as are wanted, 5"},
		},
		"API servers are fewer": {
			before: []change{apiServers(3, 1), is(down, metav1.ConditionTrue, 1, "kube-apiserver: 3 pods exist, 1 are wanted")},
			after:  []change{apiServers(1, 1), is(down, metav1.ConditionFalse, 2, "")},
			want:   []string{"Normal ScaleFinished Scale-kube-apiserver: kube-apiserver has as many pods as are wanted, 1, after 1m0s"},
		},
		"no message of a condition is news about API servers": {
			before: []change{is(up, metav1.ConditionTrue, 1, "kube-apiserver: 2 of 3 pods exist")},
			after:  []change{is(up, metav1.ConditionFalse, 2, "")},
		},
		"a pod too many during a rollout is no scale": {
			before: []change{apiServers(4, 3), is(rolling, metav1.ConditionTrue, 0, ""), is(down, metav1.ConditionTrue, 1, "kube-apiserver: 4 pods exist, 3 are wanted")},
			after:  []change{is(rolling, metav1.ConditionTrue, 0, "")},
		},
		"a workload that is missing is no scale": {after: []change{apiServers(0, 0)}},
		"a workload that goes missing while API servers become more is no scale": {
			before: []change{apiServers(3, 5), is(up, metav1.ConditionTrue, 1, "kube-apiserver: 3 of 5 pods exist")},
			after:  []change{apiServers(0, 0), is(up, metav1.ConditionFalse, 3, "")},
		},
		"a workload that comes back is no scale": {before: []change{apiServers(0, 0)}, after: []change{apiServers(0, 5)}},
		"a phase of a rotation is told when it is stored, also by one that was just moved": {
			before: []change{fresh},
			did:    rotates(encryptionKey("", rotation.Trusting)),
			want:   []string{"Normal KeyRotationStarted Rotate-EncryptionKey: The encryption key is in the phase Trusting of its rotation: pods come to trust the new one beside the former one"},
		},
		"nothing is told of the phase that comes by itself amid the first part of a rotation": {did: rotates(encryptionKey(rotation.Trusting, rotation.Using))},
		"a rotation that has come to its end says so, phase by phase": {
			did: rotates(encryptionKey(rotation.Using, rotation.Prepared), encryptionKey(rotation.Prepared, rotation.Dropping), encryptionKey(rotation.Dropping, rotation.Over)),
			want: []string{
				"Normal KeyRotationPrepared Rotate-EncryptionKey: The encryption key is in the phase Prepared of its rotation: pods use the new one, and trust the former one until a person asks for the end",
				"Normal KeyRotationCompleting Rotate-EncryptionKey: The encryption key is in the phase Dropping of its rotation: pods come to trust the new one alone",
				"Normal KeyRotationFinished Rotate-EncryptionKey: The encryption key is in the phase Over of its rotation: no pod trusts the former one any more",
			},
		},
		"a key that comes back is a warning": {
			did:  rotates(encryptionKey(rotation.Dropping, rotation.Using)),
			want: []string{"Warning KeyRotationWentBack Rotate-EncryptionKey: The encryption key is in the phase Using of its rotation: it went back from Dropping, as something was found that would be lost without the former one"},
		},
		"a repair names the object and the field manager": {
			did: &Deeds{repaired: []apply.Repair{
				{Object: corev1.ObjectReference{Kind: "Service", Name: "blue-etcd-data-0"}, Editors: []string{"kubectl-edit"}},
				{Object: corev1.ObjectReference{Kind: "Deployment", Name: "blue-kube-scheduler"}},
				{Object: corev1.ObjectReference{Kind: "ConfigMap", Name: "blue-etcd-data-config"}, Deleted: true},
			}},
			want: []string{
				`Warning Repaired Apply: Service blue-etcd-data-0 was edited by "kubectl-edit" and is put back`,
				"Warning Repaired Apply: Deployment blue-kube-scheduler was edited and is put back; the API server does not tell by whom",
				"Warning Repaired Apply: ConfigMap blue-etcd-data-config was deleted and is made again",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.did == nil {
				test.did = &Deeds{}
			}
			before, after := told(test.before...), told(test.after...)
			if diff := cmp.Diff(test.want, notes(Of(before, after, test.did))); diff != "" {
				t.Errorf("want (-) and got (+):\n%s", diff)
			}
			if again := notes(Of(after, after, &Deeds{})); again != nil {
				t.Errorf("the next reconcile says %v", again)
			}
		})
	}
}

func notes(events []Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.kind+" "+e.reason+" "+e.action+": "+e.note)
	}
	return all
}

// Kubernetes folds Events into one whose type, reason, action and related object are the same.
func TestNoTwoEventsOfAReconcileAreFoldedIntoOne(t *testing.T) {
	did := adopts(
		revision.Adoption{Component: names.EtcdData, Name: "blue-etcd-data-2"}, revision.Adoption{Component: names.EtcdEvents, Name: "blue-etcd-events-2"})
	did.Repair(&apply.Repair{Object: corev1.ObjectReference{Kind: "Service", Name: "a"}})
	did.Repair(&apply.Repair{Object: corev1.ObjectReference{Kind: "Service", Name: "b"}})
	did.Repair(nil)
	did.Rotate(encryptionKey("", rotation.Trusting))
	did.Rotate(Rotated{Kind: controlplanev1.FrontProxyCAKind, To: rotation.Trusting})
	more := func(c *controlplanev1.KOKControlPlane) {
		for i := range c.Status.Etcd {
			c.Status.Etcd[i].Replicas = ptr.To[int32](5)
		}
	}
	type identity struct {
		kind, reason, action string
		related              corev1.ObjectReference
	}
	seen := map[identity]bool{}
	all := Of(told(), told(more), did)
	for _, e := range all {
		seen[identity{e.kind, e.reason, e.action, ptr.Deref(e.related, corev1.ObjectReference{})}] = true
	}
	if len(all) != 8 || len(seen) != len(all) {
		t.Errorf("%d Events would be %d", len(all), len(seen))
	}
}

func TestALateCacheTellsNothingTwice(t *testing.T) {
	stored := told(apiServers(3, 3))
	w := &Written{}
	if w.Last(stored) != stored {
		t.Error("a program that wrote nothing goes by another status than the stored one")
	}
	w.Keep(told(apiServers(5, 5)))
	if now := Of(w.Last(stored), told(apiServers(5, 5)), &Deeds{}); now != nil {
		t.Errorf("it says again %v", notes(now))
	}
	other := told()
	other.UID = "2"
	if w.Last(other) != other {
		t.Error("a control plane that was made anew has the status of the one before")
	}
	w.Forget(client.ObjectKeyFromObject(stored))
	if w.Last(stored) != stored {
		t.Error("what was forgotten is still known")
	}
}
