package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hashes"
)

// comparedEtcd tells hashes, which are letters, one for each member; "-" does not answer.
type comparedEtcd struct {
	*losingEtcd
	c     *cluster
	task  *Task
	clock *clocktesting.FakeClock
	sums  string
	fails error
	asked int
}

func newComparedEtcd(t *testing.T, is func(*losingEtcd)) *comparedEtcd {
	t.Helper()
	e := &comparedEtcd{losingEtcd: newLosingEtcd(), clock: clocktesting.NewFakeClock(now), sums: "aaa"}
	is(e.losingEtcd)
	e.c = e.cluster(t)
	e.task = withKeys(t, e.c.Task)
	e.c.operator.clock = e.clock
	e.c.operator.etcd.Hashes = func(_ context.Context, health *etcd.Health, _ map[string]etcd.Address, _ *tls.Config) ([]hashes.Hash, error) {
		e.asked++
		var told []hashes.Hash
		for i, m := range health.Members {
			told = append(told, hashes.Hash{ID: m.ID, Answered: e.sums[i] != '-', Revision: int64(e.asked), Sum: uint32(e.sums[i])})
		}
		return told, e.fails
	}
	return e
}

func (e *comparedEtcd) run(t *testing.T) *Report {
	t.Helper()
	e.clock.Step(Interval)
	return e.c.operator.Run(t.Context(), e.task)
}

func TestHashesAreComparedRarely(t *testing.T) {
	for name, test := range map[string]struct {
		is          func(*losingEtcd)
		rolling     bool
		fails       error
		least, most int
	}{
		"all is well":                 {is: func(*losingEtcd) {}, least: 9, most: 10},
		"hashes cannot be asked for":  {is: func(*losingEtcd) {}, fails: errors.New("no client"), least: 9, most: 10},
		"the databases are large":     {is: func(e *losingEtcd) { e.health.Members[1].DatabaseInUse = 1 << 30 }, least: 2, most: 3},
		"pods are rolled out":         {is: func(*losingEtcd) {}, rolling: true},
		"not all have joined yet":     {is: func(e *losingEtcd) { e.bootstrapped = false }},
		"one does not vote yet":       {is: func(e *losingEtcd) { e.health.Members[1].Learner, e.changeFails = true, errRefused }},
		"etcd does not list members":  {is: func(e *losingEtcd) { e.health.Err = errRefused }},
		"a member of others is there": {is: func(e *losingEtcd) { e.health.UnknownMembers = []etcd.UnknownMember{{Name: "red"}} }},
	} {
		t.Run(name, func(t *testing.T) {
			e := newComparedEtcd(t, test.is)
			e.fails, e.task.RollingOut = test.fails, test.rolling
			for range 10 * HashInterval / Interval {
				e.run(t)
			}
			if e.asked < test.least || e.asked > test.most {
				t.Errorf("they were compared %d times within %s", e.asked, 10*HashInterval)
			}
		})
	}
}

func TestAMemberWithOtherDataIsReplaced(t *testing.T) {
	e := newComparedEtcd(t, func(*losingEtcd) {})
	e.sums = "aba"
	var report *Report
	for e.asked < 1 {
		report = e.run(t)
	}
	if len(e.writes) > 0 || report.Recovery != "" {
		t.Fatalf("after one comparison it writes %q and says %q", e.writes, report.Recovery)
	}
	for e.asked < 2 {
		report = e.run(t)
	}
	const says = "member blue-etcd-data-1 on host node n1: its data is not that of the majority: it is replaced"
	if len(e.writes) != 1 || e.writes[0] != "patch Service blue-etcd-data-1" || report.Recovery != says {
		t.Errorf("after two comparisons it writes %q and says %q", e.writes, report.Recovery)
	}
	if report = e.run(t); len(e.changes) == 0 || e.changes[0] != "Remove blue-etcd-data-1" {
		t.Errorf("then it changes %q and says %q", e.changes, report.Recovery)
	}
	if report.Members[1].Differs {
		t.Error("a member that is removed differs")
	}
}

func TestAPersonIsAskedWhenNoMajorityAgrees(t *testing.T) {
	e := newComparedEtcd(t, func(*losingEtcd) {})
	e.sums = "abc"
	var report *Report
	for e.asked < 2 {
		report = e.run(t)
	}
	if !report.NeedsDecision || !strings.Contains(report.Recovery, "no majority agrees") || len(e.writes)+len(e.changes) > 0 {
		t.Errorf("it writes %q and %q, and says %q", e.writes, e.changes, report.Recovery)
	}
	e.sums = "aaa"
	for e.asked < 3 {
		report = e.run(t)
	}
	if report.NeedsDecision || report.Recovery != "" {
		t.Errorf("when they are the same again it says %q", report.Recovery)
	}
}

// The person keeps the last member, as the message says, and the others join again with its data.
func TestEtcdGoesOnWithTheMemberThatAPersonKeeps(t *testing.T) {
	e := newComparedEtcd(t, func(*losingEtcd) {})
	e.sums = "abc"
	for e.asked < 2 {
		e.run(t)
	}
	e.unlist(0)
	if report := e.run(t); !report.NeedsDecision || len(e.writes)+len(e.changes) > 0 {
		t.Errorf("with two left it writes %q and %q, and says %q", e.writes, e.changes, report.Recovery)
	}
	e.unlist(1)
	if report := e.run(t); strings.Contains(report.Recovery, "no majority agrees") {
		t.Errorf("with one left it says %q", report.Recovery)
	}
}

func TestWhatComparisonsFoundIsForgottenWithTheControlPlane(t *testing.T) {
	e := newComparedEtcd(t, func(*losingEtcd) {})
	e.run(t)
	e.c.operator.Forget(client.ObjectKeyFromObject(e.task.ControlPlane))
	if left := len(e.c.operator.compared.of); left != 0 {
		t.Errorf("%d etcd clusters are left", left)
	}
}
