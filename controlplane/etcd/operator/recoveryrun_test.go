package operator

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
)

func TestWhenTheHostClusterIsAskedForLostMembers(t *testing.T) {
	for name, test := range map[string]struct {
		is   func(*losingEtcd, *cluster)
		lost bool
		asks bool
		says string
	}{
		"all is well":                            {is: func(*losingEtcd, *cluster) {}},
		"one is lost":                            {is: func(*losingEtcd, *cluster) {}, lost: true, asks: true, says: "its volume is gone: it is replaced"},
		"one is lost, and nobody answers":        {is: func(e *losingEtcd, _ *cluster) { e.down(0); e.down(1); e.down(2); e.health.Err = errRefused }, lost: true, asks: true},
		"one is lost, and one is unknown":        {is: func(e *losingEtcd, _ *cluster) { e.health.UnknownMembers = []etcd.UnknownMember{{Name: "red", ID: 1}} }, lost: true},
		"one is lost before not all have joined": {is: func(_ *losingEtcd, c *cluster) { c.Bootstrapped = false }, lost: true},
		"a pod is not ready":                     {is: func(_ *losingEtcd, c *cluster) { c.AllReady = false }, asks: true},
		"a host node is cordoned":                {is: func(_ *losingEtcd, c *cluster) { c.Cordoned = []string{"blue-etcd-data-1"} }, asks: true},
		"a member reports an error":              {is: func(e *losingEtcd, _ *cluster) { e.health.Members[1].Err = errRefused }, asks: true},
		"a member knows no leader":               {is: func(e *losingEtcd, _ *cluster) { e.health.Members[1].Follows = false }, asks: true},
		"a member did not answer":                {is: func(e *losingEtcd, _ *cluster) { e.health.Members[1].Answered = false }, asks: true},
		"a member does not vote":                 {is: func(e *losingEtcd, _ *cluster) { e.health.Members[1].Learner = true }, asks: true},
		"there is no quorum": {is: func(e *losingEtcd, _ *cluster) {
			e.down(0)
			e.down(1)
			e.health.Err, e.health.Members[2].Err, e.health.Members[2].Follows = errRefused, errors.New("it reports etcdserver: no leader"), false
		}, asks: true, says: "etcd has no quorum without member blue-etcd-data-0 on host node n0, member blue-etcd-data-1 on host node n1. "},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			if test.lost {
				e.lost()
			}
			c := e.cluster(t)
			test.is(e, c)
			report := &Report{Health: e.health}
			acted, _ := c.recoverMembers(t.Context(), report)
			if (len(e.reads) > 0) != test.asks || acted != (len(e.writes) > 0) || !strings.Contains(report.Recovery, test.says) || (report.Recovery == "") != (test.says == "") {
				t.Errorf("it asks for %q, writes %q and says %q", e.reads, e.writes, report.Recovery)
			}
		})
	}
}

func TestARunOfWhichAllIsWellHasNoRequestToTheHostCluster(t *testing.T) {
	e := newLosingEtcd()
	c := e.cluster(t)
	report := c.operator.Run(t.Context(), withKeys(t, c.Task))
	if len(e.reads) > 0 || len(e.writes) > 0 || len(e.changes) > 0 || report.text() != "" {
		t.Errorf("it reads %q, writes %q and %q, and says %q", e.reads, e.writes, e.changes, report.text())
	}
}

// Each run takes one step. Between them kubelet and the StatefulSet do theirs.
func TestALostMemberIsReplacedStepByStep(t *testing.T) {
	e := newLosingEtcd()
	e.lost()
	for i := range e.claims {
		e.claims[i].Finalizers = []string{"kubernetes.io/pvc-protection"}
	}
	c := e.cluster(t)
	task, counted := withKeys(t, c.Task), recoveries()
	var told []string
	for _, step := range []struct{ request, change, says string }{
		{request: "patch Service blue-etcd-data-1", says: "its volume is gone: it is replaced"},
		{change: "Remove blue-etcd-data-1", says: "its volume is gone: it is removed"},
		{request: "delete PersistentVolumeClaim kok-data-blue-etcd-data-1", says: "its volume is deleted"},
		{request: "delete Pod blue-etcd-data-1", says: "its pod is deleted"},
		{change: "AddLearner blue-etcd-data-1", says: "added as a learner: blue-etcd-data-1"},
		{change: "Promote blue-etcd-data-1", says: "votes now: blue-etcd-data-1"},
	} {
		e.writes, e.changes = nil, nil
		report := c.operator.Run(t.Context(), task)
		if strings.Join(e.writes, ", ") != step.request || strings.Join(e.changes, ", ") != step.change || !strings.Contains(report.Recovery+report.Change, step.says) {
			t.Fatalf("instead of %+v it writes %q and %q, and says %q", step, e.writes, e.changes, report.text())
		}
		told = append(told, e.told()...)
		switch {
		case strings.HasPrefix(step.request, "delete Pod"):
			e.renewBoth(t, 1)
		case strings.HasPrefix(step.change, "AddLearner"):
			m := &e.health.Members[1]
			m.Err, m.Started, m.Answered, m.Follows = nil, true, true, true
		}
	}
	for i, event := range told {
		if reason := []string{"EtcdMemberLost", "EtcdMembersChanged"}[i/4]; len(told) != 6 || !strings.HasPrefix(event, "Normal "+reason+" ") {
			t.Errorf("Events are %q", told)
		}
	}
	if got := recoveries() - counted; got != 1 {
		t.Errorf("%v replacements are counted", got)
	}
	task.AllReady = true
	e.reads, e.writes, e.changes = nil, nil, nil
	if report := c.operator.Run(t.Context(), task); len(e.reads) > 0 || report.text() != "" {
		t.Errorf("in the end it reads %q and says %q", e.reads, report.text())
	}
}

// renewBoth makes what a StatefulSet makes when the pod of a member has gone, and its volume with it.
func (e *losingEtcd) renewBoth(t *testing.T, i int) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if err := e.host.Get(t.Context(), client.ObjectKeyFromObject(&e.claims[i]), claim); err != nil || claim.DeletionTimestamp == nil {
		t.Fatalf("the claim is %+v, %v", claim, err)
	}
	claim.Finalizers = nil
	if err := e.host.Update(t.Context(), claim); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err := e.host.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); !apierrors.IsNotFound(err) {
		t.Fatalf("the claim is still there, %v", err)
	}
	claim, pod := e.claims[i].DeepCopy(), e.pods[i].DeepCopy()
	claim.UID, claim.Status.Phase, claim.ResourceVersion = "new claim", corev1.ClaimBound, ""
	pod.UID, pod.ResourceVersion = "new pod", ""
	for _, object := range []client.Object{claim, pod} {
		if err := e.host.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMemberIsAddedAgainWhenItsPodAndVolumeAreNew(t *testing.T) {
	for name, test := range map[string]struct {
		is      func(*losingEtcd)
		writes  string
		changes string
	}{
		"both are new":         {is: func(e *losingEtcd) { e.renewed(t) }, changes: "AddLearner blue-etcd-data-1"},
		"the pod is new alone": {is: func(e *losingEtcd) { e.removed(t); e.pods[1].UID = "new" }, writes: "delete PersistentVolumeClaim kok-data-blue-etcd-data-1"},
		"both are new, and the pod has data of another member": {is: func(e *losingEtcd) { e.renewed(t); e.saw(1, facts.Present, 1) }, writes: "delete PersistentVolumeClaim kok-data-blue-etcd-data-1"},
		"nothing is there yet": {is: func(e *losingEtcd) {
			e.removed(t)
			e.pods, e.claims = slices.Delete(e.pods, 1, 2), slices.Delete(e.claims, 1, 2)
		}, changes: "AddLearner blue-etcd-data-1"},
		"nothing is recorded": {is: func(e *losingEtcd) { e.renewed(t); e.services[1].Annotations = nil }, writes: "patch Service blue-etcd-data-1"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			c := e.cluster(t)
			report := c.operator.Run(t.Context(), withKeys(t, c.Task))
			if strings.Join(e.writes, ", ") != test.writes || strings.Join(e.changes, ", ") != test.changes {
				t.Errorf("it writes %q and %q, and says %q", e.writes, e.changes, report.text())
			}
		})
	}
}

func TestWhatAReportSaysOfLostMembers(t *testing.T) {
	for name, test := range map[string]struct {
		is            func(*losingEtcd)
		says          string
		needsDecision bool
	}{
		"none is lost":                    {is: func(e *losingEtcd) { e.allReady = false }},
		"one waits for its host node":     {is: func(e *losingEtcd) { e.down(1); e.nodes[1].Status.Conditions[1].Status = corev1.ConditionUnknown }, says: "the host cluster does not hear from it"},
		"one waits for a spare host node": {is: func(e *losingEtcd) { e.leaving(1); e.nodes = e.nodes[:3] }, says: "It is replaced when a host node is spare"},
		"one has a full disk":             {is: func(e *losingEtcd) { e.down(1); e.saw(1, facts.NoSpace, 1) }, says: "its disk is full. Make room there", needsDecision: true},
		"one was replaced in vain": {is: func(e *losingEtcd) {
			e.lost()
			e.record(t, 1, recovery.Replacement{Of: 1, Volume: "first", Begun: now.Add(-time.Hour), Try: 2})
		}, says: "although it was replaced 2 times. Find out why", needsDecision: true},
		"most have lost their data": {is: func(e *losingEtcd) {
			for i := range 2 {
				e.down(i)
				e.saw(i, facts.Empty, 2)
			}
			e.health.Err = errRefused
		}, says: "etcd has no quorum, and too many have lost their data", needsDecision: true},
		"all have lost their data, and nobody answers": {is: func(e *losingEtcd) {
			for i := range 3 {
				e.unlist(i)
				e.saw(i, facts.Empty, 2)
			}
			e.health.Err = errRefused
		}, says: "Restore a snapshot: kok etcd restore-in-place", needsDecision: true},
		"nobody answers": {is: func(e *losingEtcd) {
			for i := range 3 {
				e.unlist(i)
			}
			e.health.Err = errRefused
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			c := e.cluster(t)
			report := c.operator.Run(t.Context(), withKeys(t, c.Task))
			if !strings.Contains(report.Recovery, test.says) || (report.Recovery == "") != (test.says == "") || report.NeedsDecision != test.needsDecision {
				t.Errorf("it says %q; a person must decide: %t", report.Recovery, report.NeedsDecision)
			}
			if !strings.Contains(report.text(), report.Recovery) {
				t.Errorf("its text is %q, without %q", report.text(), report.Recovery)
			}
			if len(e.writes) > 0 || len(e.changes) > 0 {
				t.Errorf("it writes %q and %q", e.writes, e.changes)
			}
		})
	}
}

// The third member was never added, or the pods are outdated.
func TestWhatIsNotKnownOfLostMembersKeepsNothingElseFromGoingOn(t *testing.T) {
	forbidden := func(requests ...string) func(*losingEtcd) {
		return func(e *losingEtcd) {
			e.before = func(request string) error {
				if slices.Contains(requests, request) {
					return errRefused
				}
				return nil
			}
		}
	}
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		says string
	}{
		"volumes may not be read":  {forbidden("get PersistentVolume volume-blue-etcd-data-0"), "read PersistentVolume volume-blue-etcd-data-0 of claim team/kok-data-blue-etcd-data-0: connection refused"},
		"Services may not be read": {forbidden("list ServiceList"), "list the Services of etcd-data: connection refused"},
		"a record is damaged": {func(e *losingEtcd) { e.services[0].Annotations = map[string]string{recovery.Annotation: "{"} },
			"read the annotation kok.cluster.x-k8s.io/etcd-replacement of Service team/blue-etcd-data-0: unexpected end of JSON input: remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			grows := newLosingEtcd()
			test.is(grows)
			grows.unlist(2)
			grows.pods, grows.claims = grows.pods[:2], grows.claims[:2]
			c := grows.cluster(t)
			report := c.operator.Run(t.Context(), withKeys(t, c.Task))
			if report.Recovery != test.says || !report.FactsMissing || report.NeedsDecision || report.Change != "added as a learner: blue-etcd-data-2" || !slices.Equal(grows.changes, []string{"AddLearner blue-etcd-data-2"}) {
				t.Errorf("when a member is missing it changes %q and says %q", grows.changes, report.text())
			}
			outdated := newLosingEtcd()
			test.is(outdated)
			outdated.set.Status.UpdateRevision, outdated.allReady = "new", false
			c = outdated.cluster(t)
			c.RollingOut = true
			report = c.operator.Run(t.Context(), withKeys(t, c.Task))
			if report.Recovery != test.says || report.Rollout != "member blue-etcd-data-2 is replaced" || !slices.Equal(outdated.writes, []string{"delete Pod blue-etcd-data-2"}) {
				t.Errorf("when pods are outdated it writes %q and says %q", outdated.writes, report.text())
			}
		})
	}
}

// Every member of a full etcd reports the alarm.
func TestAFullEtcdGoesOnWithItsMembers(t *testing.T) {
	for name, test := range map[string]struct {
		is   func(*losingEtcd)
		want string
	}{
		"one is missing": {func(e *losingEtcd) { e.unlist(2); e.pods, e.claims = e.pods[:2], e.claims[:2] }, "added as a learner: blue-etcd-data-2"},
		"one has all data, and does not vote yet": {func(e *losingEtcd) { e.health.Members[2].Learner = true }, "votes now: blue-etcd-data-2"},
	} {
		e := newLosingEtcd()
		test.is(e)
		e.health.Full = true
		for i := range e.health.Members {
			e.health.Members[i].Full, e.health.Members[i].Err = true, errors.New("it reports alarm:NOSPACE")
		}
		c := e.cluster(t)
		if report := c.operator.Run(t.Context(), withKeys(t, c.Task)); report.Change != test.want {
			t.Errorf("%s: it says %q", name, report.text())
		}
	}
}
