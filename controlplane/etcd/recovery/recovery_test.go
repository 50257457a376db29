package recovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/byhand"
)

var now = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) time.Time { return now.Add(-d) }

// cluster is one of voters that are fine, of which the first leads, after changes. Their volumes are tied to their host nodes,
// and there is a spare one.
func cluster(voters int, changes ...func(*State)) State {
	s := State{Now: now, Spare: 1, Restores: "kok etcd restore-in-place blue", TakesSnapshot: "kok etcd snapshot blue", ByHand: byhand.Etcdctl{}}
	for i := range voters {
		s.Members = append(s.Members, Member{
			Name: name(i), Ordinal: i, ID: uint64(100 + i), Started: true, Leader: i == 0, Healthy: true, Follows: true, Data: Stale,
			Pod: Pod{UID: fmt.Sprintf("pod-%d", i)}, Claim: Claim{UID: fmt.Sprintf("claim-%d", i), Tied: true}, Host: Host{Name: fmt.Sprintf("host-%d", i)},
		})
		s.ByHand[name(i)] = "etcdctl in " + name(i)
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func name(ordinal int) string { return fmt.Sprintf("blue-etcd-data-%d", ordinal) }

func of(ordinal int, changes ...func(*Member)) func(*State) {
	return func(s *State) {
		for _, change := range changes {
			change(&s.Members[ordinal])
		}
	}
}

// States of a member.
func down(m *Member)        { m.Healthy, m.Follows = false, false }
func lags(m *Member)        { m.Follows = false }
func outdatedPod(m *Member) { m.Pod.Outdated = true }
func differs(m *Member)     { m.Differs = true }
func behind(entries uint64) func(*Member) {
	return func(m *Member) { m.Behind = entries }
}
func stopping(m *Member)     { down(m); m.Pod.Stopping = true }
func empty(m *Member)        { down(m); m.Data, m.Pod.FailedStarts = Empty, 2 }
func unreadable(m *Member)   { down(m); m.Data = Unreadable }
func full(m *Member)         { down(m); m.Data, m.Pod.FailedStarts = NoSpace, 9 }
func fails(m *Member)        { down(m); m.Data, m.Pod.FailedStarts = Present, 5 }
func failsAgain(m *Member)   { fails(m); m.Data = Stale }
func failsUnseen(m *Member)  { fails(m); m.Data = Unknown }
func unheard(m *Member)      { m.Host.Unheard = true }
func silent(m *Member)       { down(m); unheard(m) }
func nodeGone(m *Member)     { m.Host.Gone = true }
func outOfService(m *Member) { m.Host.Unheard, m.Host.OutOfService = true, true }
func pending(m *Member)      { down(m); m.Data, m.Pod.PendingSince = Unknown, before(time.Hour) }

// waitsFor is a new member whose pod has no node for so long, and of which there is no record.
func waitsFor(age time.Duration) func(*Member) {
	return func(m *Member) { m.Data, m.Pod.PendingSince, m.Last = Unknown, before(age), Replacement{} }
}
func unclaimed(m *Member) { pending(m); m.Claim, m.Host = Claim{}, Host{} }
func follower(m *Member)  { m.Leader = false }
func leads(m *Member)     { m.Leader = true }
func movable(m *Member)   { m.Claim.Tied = false }
func cordoned(since time.Duration) func(*Member) {
	return func(m *Member) { m.Host.CordonedSince = before(since) }
}

// lastSnapshots is a member that alone keeps verified snapshots, on its host node; anywhere has every host node use their volume.
func lastSnapshots(m *Member) {
	m.Claim.LastSnapshots, m.Claim.SnapshotsKnown, m.Claim.SnapshotsTied = fmt.Sprintf("kok-own-snapshots-%d", m.Ordinal), true, true
}

// mayHaveSnapshots is a member of which nobody knows whether it keeps verified snapshots, and no other member is known to keep any.
func mayHaveSnapshots(m *Member) { lastSnapshots(m); m.Claim.SnapshotsKnown = false }
func anywhere(m *Member)         { m.Claim.SnapshotsTied = false }

// begun is a member whose replacement began so long ago, and not more.
func begun(age time.Duration) func(*Member) {
	return func(m *Member) { m.Last = Replacement{Of: m.ID, Volume: m.Claim.UID, Begun: before(age), Try: 1} }
}

// replacedBefore is a member that was replaced, as the so-many-th try, so long ago.
func replacedBefore(try int, age time.Duration) func(*Member) {
	return func(m *Member) { m.Last = Replacement{Of: 7, Volume: "claim-before", Begun: before(age), Try: try} }
}

// removed is a member that was removed in this moment, of which nothing is gone yet.
func removed(m *Member) {
	begun(time.Minute)(m)
	down(m)
	m.ID, m.Started, m.Leader = 0, false, false
}

// byHand is a member that another hand has removed.
func byHand(m *Member) { removed(m); m.Last = Replacement{} }

// blank is a member that was removed and has a new pod and a new volume.
func blank(m *Member) { removed(m); m.Pod.UID, m.Claim.UID, m.Data = "pod-new", "claim-new", Empty }

// learns is a member that was added again.
func learns(m *Member) { blank(m); m.ID, m.Learner = 200, true }

// early is a learner whose pod is older than the file that lets it join, and waits.
func early(m *Member)    { learns(m); m.Pod.Early, m.Pod.FailedStarts = true, 6 }
func halfGone(m *Member) { removed(m); m.Claim.Stopping = true }
func hanging(m *Member) {
	blank(m)
	m.Claim, m.Host, m.Pod.PendingSince = Claim{}, Host{}, before(2*time.Minute)
}

// former is a member that etcd does not list, on a volume from before a restore in place.
func former(data Data) func(*Member) {
	return func(m *Member) { byHand(m); m.Claim.Former, m.Data = true, data }
}

func spare(hosts int) func(*State) { return func(s *State) { s.Spare = hosts } }
func volatile(s *State) {
	s.Volatile = true
	for i := range s.Members {
		s.Members[i].Claim = Claim{}
	}
}
func disagree(s *State) { s.Disagree = true }
func unlisted(s *State) {
	for i := range s.Members {
		s.Members[i].ID = 0
		s.Members[i].Leader = false
		s.Members[i].Follows = false
	}
}

func TestDecide(t *testing.T) {
	type parts []string
	waits, asks := Action{Kind: Wait}, Action{Kind: NeedsDecision}
	does := func(kind Kind, ordinal int) Action { return Action{Kind: kind, Ordinal: ordinal} }
	begins := func(ordinal, try int) Action { return Action{Kind: Begin, Ordinal: ordinal, Try: try} }
	for what, test := range map[string]struct {
		state State
		want  Action
		// says are parts of the reason.
		says parts
	}{
		"all are fine":                  {state: cluster(3)},
		"one is down":                   {state: cluster(3, of(1, down))},
		"one is stopping":               {state: cluster(3, of(1, stopping))},
		"one lags behind":               {state: cluster(3, of(1, lags))},
		"one fails to start four times": {state: cluster(3, of(1, fails, func(m *Member) { m.Pod.FailedStarts = 4 }))},
		"one was found empty when it began, and works":         {state: cluster(3, of(1, empty, func(m *Member) { m.Healthy, m.Follows = true, true }))},
		"one was found empty before it was ready, and is down": {state: cluster(3, of(1, down, func(m *Member) { m.Data = Stale }))},

		"one begins on its volume from before a restore":    {state: cluster(3, of(1, former(Empty)))},
		"nobody looked at its volume from before a restore": {state: cluster(3, of(1, former(Unknown)))},
		"that volume has data of this cluster": {state: cluster(3, of(1, former(Present))),
			want: begins(1, 1), says: parts{"etcd does not list it"}},
		"a learner has no room beside its data from before a restore": {state: cluster(3, of(1, former(NoSpace), func(m *Member) { m.ID, m.Learner, m.Pod.FailedStarts = 200, true, 9 })),
			want: asks, says: parts{"no room beside the data from before the restore"}},

		"one has an empty directory": {state: cluster(3, of(1, empty)),
			want: begins(1, 1), says: parts{name(1), "host-1", "directory is empty"}},
		"one that joined in this pod ends before it is ready": {state: cluster(3, of(1, empty, func(m *Member) { m.Pod.FailedStarts = 1 }))},
		"one that is stopping was found empty":                {state: cluster(3, of(1, empty, stopping))},
		"one has data that is unreadable":                     {state: cluster(3, of(1, unreadable)), want: begins(1, 1), says: parts{"cannot be read"}},
		"one has other data":                                  {state: cluster(3, of(2, differs)), want: begins(2, 1), says: parts{"of the majority"}},
		"one has no claim":                                    {state: cluster(3, of(1, unclaimed)), want: begins(1, 1), says: parts{"claim is gone"}},
		"the volume of one is gone":                           {state: cluster(3, of(1, pending, func(m *Member) { m.Claim.Lost = true })), want: begins(1, 1), says: parts{"its volume is gone"}},
		"one fails to start five times":                       {state: cluster(3, of(1, fails)), want: begins(1, 1), says: parts{"does not start"}},
		"the Node of one is deleted": {state: cluster(3, of(1, down, nodeGone)),
			want: begins(1, 1), says: parts{"Node object was deleted"}},
		"the host node of one is out of service": {state: cluster(3, of(1, down, outOfService)),
			want: begins(1, 1), says: parts{"out of service"}},
		"the Node of one that works is deleted":                            {state: cluster(3, of(1, nodeGone)), want: begins(1, 1)},
		"the Node of one that works is deleted, and another lags a little": {state: cluster(3, of(1, nodeGone), of(2, behind(1000))), want: begins(1, 1)},
		"the Node of one that works is deleted, and another lags far": {state: cluster(3, of(1, nodeGone), of(2, behind(1001))),
			want: waits, says: parts{"host-1", name(2) + " has what it lacks"}},
		"the Node of one that works and lags far itself is deleted":       {state: cluster(3, of(1, nodeGone, behind(5000))), want: begins(1, 1)},
		"the Node of one that works is deleted, and a learner lags far":   {state: cluster(4, of(1, nodeGone), of(3, learns, behind(5000)))},
		"the Node of one that is down is deleted, and another lags far":   {state: cluster(3, of(1, down, nodeGone), of(2, behind(5000))), want: begins(1, 1)},
		"a replacement of one that works has begun, and another lags far": {state: cluster(3, of(1, nodeGone, begun(time.Minute)), of(2, behind(5000))), want: waits},
		"one has other data, and another lags far":                        {state: cluster(3, of(1, differs), of(2, behind(5000))), want: waits, says: parts{name(2)}},
		"a host node is cordoned for long, and not drained":               {state: cluster(3, of(1, cordoned(time.Hour)))},
		"the same, and its member does not answer for a moment":           {state: cluster(3, of(1, down, cordoned(time.Hour)))},
		"a host node is cordoned for ten minutes, and drained": {state: cluster(3, of(1, pending, cordoned(10*time.Minute))),
			want: begins(1, 1), says: parts{"ten minutes"}},
		"a host node is cordoned for long, and drained": {state: cluster(3, of(1, pending, cordoned(time.Hour))), want: begins(1, 1)},
		"a host node was cordoned a moment ago":         {state: cluster(3, of(1, pending, cordoned(9*time.Minute)))},
		"the first of five is empty":                    {state: cluster(5, of(0, follower, empty), of(1, leads)), want: begins(0, 1)},
		"one does not work, and the host node of another is cordoned": {
			state: cluster(3, of(1, cordoned(time.Hour)), of(2, empty)), want: begins(2, 1)},

		"a volume that can follow needs no replacement when the Node is deleted": {state: cluster(3, of(1, pending, movable, nodeGone))},
		"nor when it is out of service":                                          {state: cluster(3, of(1, pending, movable, outOfService))},
		"nor when it is cordoned":                                                {state: cluster(3, of(1, movable, cordoned(time.Hour)))},
		"data that goes with the pod and is on a host node that is cordoned": {
			state: cluster(3, volatile, of(1, cordoned(time.Hour)))},
		"data that went with the pod, and others that are not rolled out": {state: cluster(3, volatile, of(1, empty), of(2, outdatedPod)),
			want: begins(1, 1)},
		"data that went with the pod": {state: cluster(3, volatile, of(1, empty)), want: begins(1, 1)},

		"one is not heard from": {state: cluster(3, of(1, silent)),
			want: waits, says: parts{name(1), "host-1", "does not hear", "delete its Node"}},
		"one is not heard from, and works":          {state: cluster(3, of(1, unheard))},
		"one is not heard from, and has other data": {state: cluster(3, of(1, unheard, differs))},
		"one is not heard from, and was empty": {state: cluster(3, of(1, empty, silent)),
			want: waits, says: parts{"does not hear"}},
		"one is not heard from, and was failing": {state: cluster(3, of(1, fails, silent)),
			want: waits, says: parts{"does not hear"}},
		"one is not heard from, and was cordoned long ago": {state: cluster(3, of(1, silent, cordoned(time.Hour))),
			want: waits, says: parts{"does not hear"}},
		"one is not heard from, and another is empty": {state: cluster(5, of(1, silent), of(2, empty)),
			want: waits, says: parts{name(2), "directory is empty", "when member " + name(1) + " on host node host-1 works"}},
		"one is not heard from, and another is on a cordoned node": {state: cluster(5, of(1, silent), of(2, cordoned(time.Hour))),
			want: waits, says: parts{name(1)}},

		"two of five are empty": {state: cluster(5, of(1, empty), of(2, empty)),
			want: asks, says: parts{name(1), "host-2", "To give up " + name(2) + ", run: etcdctl in " + name(0) + " member remove 66"}},
		"one is empty, and one is down": {state: cluster(5, of(1, empty), of(2, down)),
			want: waits, says: parts{name(2) + " on host node host-2 works"}},
		"one is empty, and one lags behind":   {state: cluster(3, of(1, empty), of(2, lags)), want: waits, says: parts{name(2)}},
		"one has other data, and one is down": {state: cluster(3, of(1, differs), of(2, down)), want: waits, says: parts{name(2)}},
		"two have other data":                 {state: cluster(5, of(1, differs), of(2, differs)), want: begins(1, 1)},

		"two have other data, and one of them leads": {state: cluster(5, of(0, follower, differs), of(1, differs, leads)), want: begins(1, 1)},
		"the replacement of a leader has begun, and the next one has other data, too": {state: cluster(5, of(0, differs, begun(time.Minute)), of(1, differs)),
			want: does(MoveLeader, 2)},
		"the leader has other data, and waits for a member that votes": {state: cluster(2, of(0, differs), of(1, movable)), want: waits, says: parts{"when 3 members vote"}},
		"one has other data while pods are rolled out":                 {state: cluster(3, of(1, differs), of(2, outdatedPod)), want: waits, says: parts{"up to date"}},
		"no majority agrees":                    {state: cluster(3, disagree), want: asks, says: parts{name(0) + " (64), " + name(1) + " (65), " + name(2) + " (66)", "no majority agrees", "in place of ID, run: etcdctl in " + name(0) + " member remove ID"}},
		"no majority agrees, and one is empty":  {state: cluster(3, disagree, of(1, empty)), want: asks, says: parts{"no majority agrees"}},
		"no majority agrees, and most are away": {state: cluster(3, disagree, of(1, down), of(2, down)), want: waits, says: parts{"no quorum"}},

		"one is empty while pods are rolled out": {state: cluster(3, of(1, empty), of(2, outdatedPod)),
			want: waits, says: parts{"all pods are up to date: if they wait for it, run: etcdctl in " + name(0) + " member remove 65"}},
		"the first of five, of whose data nothing is known, differs while pods are rolled out": {
			state: cluster(5, of(0, differs, func(m *Member) { m.Data = Unknown }), of(2, outdatedPod)), want: waits, says: parts{"run: etcdctl in " + name(1) + " member remove 64"}},
		"the host node of one is gone while pods are rolled out": {state: cluster(3, of(1, down, nodeGone), of(2, outdatedPod)), want: begins(1, 1)},
		"the claim of one is gone while pods are rolled out":     {state: cluster(3, of(1, unclaimed), of(2, outdatedPod)), want: begins(1, 1)},
		"the host node of one that works is gone while pods are rolled out": {state: cluster(3, of(1, nodeGone), of(2, outdatedPod)),
			want: waits, says: parts{"up to date"}},
		"one is empty, and its pod is outdated": {state: cluster(3, of(1, empty, outdatedPod)), want: waits, says: parts{"up to date"}},
		"one fails to start after a change": {state: cluster(3, of(1, fails), of(0, outdatedPod), of(2, outdatedPod)),
			want: waits, says: parts{"up to date", "take back the change"}},
		"one fails to start because the disk is full": {state: cluster(3, of(1, full)), want: asks, says: parts{name(1), "host-1", "disk is full"}},
		"one fails to start, and nobody has looked at its data": {
			state: cluster(3, of(1, failsUnseen)), want: asks, says: parts{"nothing is known", "To give its data up, run: etcdctl in " + name(0) + " member remove 65"}},
		"the same, and no other one can carry out commands": {
			state: cluster(3, of(1, failsUnseen), func(s *State) { s.ByHand = nil }), want: asks, says: parts{"To give its data up, bring back another member that votes"}},
		"one fails to start, and ran since somebody looked at its data": {state: cluster(3, of(1, failsAgain)), want: does(DeletePod, 1)},
		"the same while pods are rolled out":                            {state: cluster(3, of(1, failsAgain), of(0, outdatedPod)), want: waits},
		"the same while another is down":                                {state: cluster(5, of(1, failsAgain), of(2, down)), want: waits},

		"the last snapshots are tied to the cordoned host node of one": {state: cluster(3, of(1, pending, cordoned(time.Hour), lastSnapshots)),
			want: waits, says: parts{"kok-own-snapshots-1 ties it", "another member keeps one", "kok etcd snapshot blue", "delete the claim"}},
		"the same, and its replacement has begun": {state: cluster(3, of(1, pending, cordoned(time.Hour), lastSnapshots, begun(time.Minute))), want: waits},
		"the last snapshots are tied to the host node of one that is out of service": {state: cluster(3, of(1, down, outOfService, lastSnapshots)),
			want: waits, says: parts{"delete its Node object"}},
		"the last snapshots are tied to a host node that takes one again": {state: cluster(3, of(1, empty, lastSnapshots)), want: begins(1, 1)},
		"the last snapshots can follow one":                               {state: cluster(3, of(1, down, outOfService, lastSnapshots, anywhere)), want: begins(1, 1)},
		"the last snapshots are those of one that was removed":            {state: cluster(3, of(1, removed, lastSnapshots)), want: does(DeleteClaim, 1)},
		"nobody knows of snapshots on the cordoned host node of one":      {state: cluster(3, of(1, pending, cordoned(time.Hour), mayHaveSnapshots)), want: begins(1, 1)},
		"no host node is spare for one whose own is gone": {state: cluster(3, spare(0), of(1, down, nodeGone)),
			want: waits, says: parts{name(1), "host-1", "spare"}},
		"no host node is spare for one whose own is cordoned": {state: cluster(3, spare(0), of(1, pending, cordoned(time.Hour))),
			want: waits, says: parts{"spare"}},
		"no host node is spare for one that is empty, and whose own was cordoned a moment ago": {
			state: cluster(3, spare(0), of(1, empty, cordoned(time.Minute))), want: waits, says: parts{"spare"}},
		"no host node is spare, and one that is empty can stay": {state: cluster(3, spare(0), of(1, empty)), want: begins(1, 1)},

		"the only member's host node is cordoned":              {state: cluster(1, of(0, cordoned(time.Hour)))},
		"the only member fails to start":                       {state: cluster(1, of(0, fails)), want: waits, says: parts{"no quorum", name(0), "host-0"}},
		"the only member is empty":                             {state: cluster(1, of(0, empty)), want: asks, says: parts{name(0), "snapshot"}},
		"the host node of one of two voters is out of service": {state: cluster(2, of(1, outOfService)), want: waits, says: parts{"when 3 members vote"}},

		"a replacement has begun": {state: cluster(3, of(1, empty, begun(time.Minute))), want: does(Remove, 1)},
		"a replacement of the leader has begun": {state: cluster(3, of(0, differs, begun(time.Minute))),
			want: does(MoveLeader, 1)},
		"the next one that could lead is on a cordoned node": {state: cluster(3, of(0, differs, begun(time.Minute)), of(1, cordoned(time.Minute))),
			want: does(MoveLeader, 2)},
		"all that could lead are on cordoned nodes": {state: cluster(3, of(0, differs, begun(time.Minute)), of(1, cordoned(time.Minute)), of(2, cordoned(time.Minute))),
			want: does(MoveLeader, 1)},
		"a replacement has begun, and the member is back":       {state: cluster(3, of(1, begun(time.Minute)))},
		"a replacement has begun, and another member goes down": {state: cluster(5, of(1, empty, begun(time.Minute)), of(2, down)), want: waits},
		"a replacement has begun, and the spare host node is gone": {state: cluster(3, spare(0), of(1, nodeGone, begun(time.Minute))),
			want: waits, says: parts{"spare"}},
		"a replacement has begun, and so has a rollout": {state: cluster(3, of(1, empty, begun(time.Minute)), of(0, outdatedPod)),
			want: waits},
		"a replacement has begun long ago": {state: cluster(3, of(1, empty, begun(25*time.Hour))), want: begins(1, 1)},
		"a replacement has begun, and the claim was made anew since": {state: cluster(3, of(1, empty, begun(time.Minute), func(m *Member) { m.Claim.UID = "claim-newer" })),
			want: begins(1, 1)},

		"it is removed": {state: cluster(3, of(1, removed)),
			want: does(DeleteClaim, 1), says: parts{name(1)}},
		"the last one is removed": {state: cluster(3, of(2, removed)), want: does(DeleteClaim, 2)},
		"its claim is deleted":    {state: cluster(3, of(1, halfGone)), want: does(DeletePod, 1)},
		"its claim and its pod are deleted": {state: cluster(3, of(1, halfGone, stopping)),
			want: waits, says: parts{"is stopping"}},
		"they are deleted, and its host node is not heard from": {state: cluster(3, of(1, halfGone, stopping, unheard)),
			want: waits, says: parts{"host-1", "delete its Node"}},
		"its new claim is deleted by another hand": {state: cluster(3, of(1, blank, func(m *Member) { m.Claim.Stopping = true })),
			want: does(DeletePod, 1)},
		"prepare sees data where none should be": {state: cluster(3, of(1, blank, func(m *Member) { m.Data = Present })),
			want: does(DeleteClaim, 1)},
		"its data went with its pod": {state: cluster(3, volatile, of(1, removed, func(m *Member) { m.Last.Volume = m.Pod.UID })),
			want: does(DeletePod, 1)},
		"its pod and its claim are new":               {state: cluster(3, of(1, blank))},
		"its pod hangs on the claim that was deleted": {state: cluster(3, of(1, hanging)), want: does(DeletePod, 1)},
		"its pod hangs on a claim that is being deleted": {
			state: cluster(3, of(1, hanging, func(m *Member) { m.Claim = Claim{UID: "claim-new", Stopping: true} })), want: does(DeletePod, 1)},
		"its pod waits for its claim since a moment": {state: cluster(3, of(1, hanging, func(m *Member) { m.Pod.PendingSince = before(time.Second) }))},
		"its pod has not been made yet":              {state: cluster(3, of(1, blank, func(m *Member) { m.Pod, m.Claim = Pod{}, Claim{} }))},
		"it is removed, and another goes down": {state: cluster(5, of(1, removed), of(2, down)),
			want: waits, says: parts{name(1), "host-2"}},
		"it is removed, and a rollout begins": {state: cluster(3, of(1, removed), of(2, outdatedPod)),
			want: does(DeleteClaim, 1)},
		"it is removed, and another is on a cordoned node": {state: cluster(5, of(1, blank), of(2, cordoned(time.Hour)))},
		"one is removed by another hand": {state: cluster(3, of(1, byHand)),
			want: begins(1, 1), says: parts{"does not list"}},
		"one is removed by another hand in a rollout":                    {state: cluster(3, of(1, byHand), of(2, outdatedPod)), want: begins(1, 1)},
		"one is removed by another hand, and its pod and claim are gone": {state: cluster(3, of(1, byHand, func(m *Member) { m.Pod, m.Claim = Pod{}, Claim{} }))},
		"the last is removed by another hand":                            {state: cluster(3, of(2, byHand))},
		"two are removed by another hand":                                {state: cluster(5, of(1, blank), of(2, byHand)), want: begins(2, 1)},
		"members are yet to be added":                                    {state: cluster(5, of(3, byHand), of(4, byHand))},

		"it learns": {state: cluster(3, of(1, learns))},
		"it learns, and its pod fails for a moment": {state: cluster(3, of(1, learns, func(m *Member) { m.Pod.FailedStarts = 9 }))},
		"it learns, and its pod came early": {state: cluster(3, of(1, early)),
			want: does(DeletePod, 1), says: parts{name(1) + " on host node host-1", "before it could join"}},
		"its pod came so early that it seems not to have joined in time": {state: cluster(3, of(1, early, replacedBefore(1, time.Hour))), want: does(DeletePod, 1)},
		"a new learner whose pod came early":                             {state: cluster(3, of(2, early, func(m *Member) { m.Last = Replacement{} })), want: does(DeletePod, 2)},
		"its pod came early, and pods are rolled out":                    {state: cluster(3, of(1, early, outdatedPod)), want: does(DeletePod, 1)},
		"its pod came early, and is stopping":                            {state: cluster(3, of(1, early, func(m *Member) { m.Pod.Stopping = true }))},
		"its pod came early, and it has joined since":                    {state: cluster(3, of(1, early, func(m *Member) { m.Started = true }))},
		"its pod came early, and its host node is not heard from":        {state: cluster(3, of(1, early, unheard))},
		"its pod came early, and another goes down":                      {state: cluster(5, of(1, early), of(2, down))},
		"its pod came early, and would take data along":                  {state: cluster(3, volatile, of(1, early))},
		"its pod came early, and etcd has no quorum":                     {state: cluster(3, of(0, down), of(1, early)), want: waits},
		"it learns for long":                                             {state: cluster(3, of(1, learns, replacedBefore(1, time.Hour)))},
		"it has not joined in time": {state: cluster(3, of(1, learns, fails, replacedBefore(1, time.Hour))),
			want: begins(1, 2), says: parts{"has not joined"}},
		"it has not joined in time, on a full disk": {state: cluster(3, of(1, learns, full, replacedBefore(1, time.Hour))),
			want: begins(1, 2)},
		"no host node takes it": {state: cluster(3, spare(0), of(1, learns, pending, replacedBefore(1, time.Hour), func(m *Member) { m.Host = Host{} })),
			want: waits, says: parts{"spare"}},
		"no host node takes it but that of its volume, which is gone": {state: cluster(3, of(1, learns, pending, nodeGone, replacedBefore(1, time.Hour))),
			want: begins(1, 1)},
		"it has not joined, and its host node is not heard from": {state: cluster(3, of(1, learns, fails, unheard, replacedBefore(1, time.Hour)))},
		"it has not joined, and another goes down": {state: cluster(5, of(1, learns, fails, replacedBefore(1, time.Hour)), of(2, down)),
			want: waits},
		"the second try has begun": {state: cluster(3, of(1, learns, fails, begun(time.Minute))),
			want: does(Remove, 1)},
		"the second try failed": {state: cluster(3, of(1, learns, fails, replacedBefore(2, time.Hour))),
			want: asks, says: parts{name(1), "host-1", Annotation, "Service"}},
		"the second try failed long ago": {state: cluster(3, of(1, learns, fails, replacedBefore(2, 100*time.Hour))),
			want: asks},
		"the second try did not join, as its host node is gone": {
			state: cluster(3, of(1, learns, pending, nodeGone, replacedBefore(2, time.Hour))), want: begins(1, 1)},
		"a new learner that does not start": {state: cluster(3, of(1, learns, fails, func(m *Member) { m.Last = Replacement{} })),
			want: begins(1, 1)},
		"a new learner that waits for a host node or a volume":  {state: cluster(3, of(2, learns, waitsFor(14*time.Minute)))},
		"a new learner that waits for them for too long":        {state: cluster(3, of(2, learns, waitsFor(15*time.Minute))), want: begins(2, 1), says: parts{"has not joined"}},
		"a new learner that waits for a host node that is gone": {state: cluster(3, of(2, learns, waitsFor(time.Minute), nodeGone)), want: begins(2, 1)},
		"a new learner that starts":                             {state: cluster(3, of(1, learns, func(m *Member) { m.Last = Replacement{} }))},
		"a new learner whose pod hangs": {state: cluster(3, of(2, hanging, func(m *Member) { m.ID, m.Learner, m.Last = 200, true, Replacement{} })),
			want: does(DeletePod, 2)},
		"a host node is cordoned, and a member learns": {state: cluster(4, of(1, learns), of(2, cordoned(time.Hour)))},
		"one is removed, and another of five is empty": {state: cluster(5, of(1, blank), of(2, empty)), want: begins(2, 1)},
		"one learns, and another of five is empty":     {state: cluster(5, of(1, learns), of(2, empty)), want: begins(2, 1)},
		"a voter is empty beside a learner of which there is no record": {
			state: cluster(5, of(4, learns, func(m *Member) { m.Last = Replacement{} }), of(1, empty)), want: begins(1, 1)},

		"it votes, and is empty again at once": {state: cluster(3, of(1, empty, replacedBefore(1, time.Minute))),
			want: waits, says: parts{"a moment ago", "12:14 UTC"}},
		"it votes, and is empty again later": {state: cluster(3, of(1, empty, replacedBefore(1, time.Hour))),
			want: begins(1, 2)},
		"it was replaced twice today": {state: cluster(3, of(1, empty, replacedBefore(2, time.Hour))),
			want: asks, says: parts{name(1), "host-1", "2 times"}},
		"it was replaced twice yesterday": {state: cluster(3, of(1, empty, replacedBefore(2, 24*time.Hour))),
			want: begins(1, 1)},
		"it was replaced twice today, and its host node is cordoned now": {state: cluster(3, of(1, pending, cordoned(time.Hour), replacedBefore(2, time.Hour))),
			want: begins(1, 1)},
		"it was replaced at a time that is yet to come": {state: cluster(3, of(1, empty, replacedBefore(2, -time.Hour))),
			want: begins(1, 1)},

		"etcd lists nobody": {state: cluster(3, unlisted, of(1, silent), of(2, down, nodeGone)), want: waits,
			says: parts{"no quorum", name(1) + " on host node host-1 (not heard from)", name(2) + " on host node host-2 (its Node object was deleted)", "Bring back"}},
		"etcd lists nobody, and all answer": {state: cluster(3, unlisted), want: waits, says: parts{"every member answers"}},
		"two of three are away": {state: cluster(3, of(1, silent), of(2, down, outOfService)),
			want: waits, says: parts{"host-1", "host-2 (out of service)"}},
		"one is empty and one is away": {state: cluster(3, of(1, empty), of(2, silent)),
			want: waits, says: parts{"host-1 (data: Empty)", "host-2 (not heard from)"}},
		"two of three are empty": {state: cluster(3, of(1, empty), of(2, unreadable)),
			want: asks, says: parts{name(1), name(2), "host-2 (data: Unreadable)", "left: kok etcd restore-in-place blue --survivor " + name(0)}},
		"two of three are empty, and one of them is not heard from since": {state: cluster(3, of(1, empty), of(2, empty, unheard)), want: waits, says: parts{"host-2"}},
		"two of three have only just started, without data":               {state: cluster(3, of(1, empty, startedOnce), of(2, empty, startedOnce)), want: waits},
		"all are empty": {state: cluster(3, of(0, empty), of(1, empty), of(2, empty)), want: asks, says: parts{"kok etcd restore-in-place blue SNAPSHOT"}},
		"three of five are empty, and the first one's host node is gone": {state: cluster(5, of(0, down, nodeGone), of(1, empty), of(2, empty), of(3, empty)),
			want: asks, says: parts{"blue --survivor " + name(4)}},
		"three of five are empty, and the first one does not answer": {state: cluster(5, of(0, down), of(1, empty), of(2, empty), of(3, empty)),
			want: asks, says: parts{"blue --survivor " + name(4)}},
		"two of three are empty, and the last does not answer": {state: cluster(3, of(0, empty), of(1, empty), of(2, silent)), want: asks, says: parts{"blue --survivor " + name(2)}},
		"two of three are empty, and data go with pods":        {state: cluster(3, volatile, of(0, empty), of(1, empty)), want: asks, says: parts{"blue SNAPSHOT"}},
		"all are empty, and have no more than events":          {state: cluster(1, of(0, empty), func(s *State) { s.Restores, s.FoundsAnew = "", "kok etcd restore-in-place blue --events" }), want: asks, says: parts{"Found it anew", "blue --events"}},
		"one is removed, and one of the rest is away":          {state: cluster(3, of(1, removed), of(2, silent)), want: waits, says: parts{"host-2"}},
	} {
		t.Run(what, func(t *testing.T) {
			got := Decide(test.state)
			reason := got.Reason
			if got.Reason = ""; got != test.want || (got.Kind == None) != (reason == "") {
				t.Errorf("got %+v %q, want %+v", got, reason, test.want)
			}
			for _, part := range test.says {
				if !strings.Contains(reason, part) {
					t.Errorf("%q does not say %q", reason, part)
				}
			}
		})
	}
}

func TestWhatIsDecidedWhenNobodyAnswers(t *testing.T) {
	unlisted := func(s *State) {
		for i := range s.Members {
			s.Members[i].ID, s.Members[i].Started, s.Members[i].Leader = 0, false, false
			down(&s.Members[i])
		}
	}
	for name, test := range map[string]struct {
		state State
		want  Kind
		says  string
	}{
		"the way there may be broken":     {state: cluster(3, unlisted), want: None},
		"one has lost its data":           {state: cluster(3, unlisted, of(0, empty)), want: None},
		"they have only just started":     {state: cluster(3, unlisted, of(0, empty, startedOnce), of(1, empty, startedOnce), of(2, empty, startedOnce)), want: None},
		"no kubelet is heard from":        {state: cluster(3, unlisted, of(0, empty, unheard), of(1, empty, unheard), of(2, empty, unheard)), want: None},
		"all have lost their data":        {state: cluster(3, unlisted, of(0, empty), of(1, empty), of(2, empty)), want: NeedsDecision, says: "Restore a snapshot: kok etcd restore-in-place blue SNAPSHOT"},
		"two have lost their data":        {state: cluster(3, unlisted, of(0, empty), of(1, unreadable)), want: NeedsDecision, says: "--survivor blue-etcd-data-2"},
		"the only one has lost its data":  {state: cluster(1, unlisted, of(0, empty)), want: NeedsDecision, says: "SNAPSHOT"},
		"the only one does not start":     {state: cluster(1, unlisted, of(0, fails)), want: None},
		"one of two that are lost is far": {state: cluster(3, unlisted, of(0, empty), of(1, empty, unheard)), want: None},
	} {
		t.Run(name, func(t *testing.T) {
			got := DecideUnanswered(test.state)
			if got.Kind != test.want || !strings.Contains(got.Reason, test.says) {
				t.Errorf("got %v %q, want %v with %q", got.Kind, got.Reason, test.want, test.says)
			}
		})
	}
}

func startedOnce(m *Member) { m.Pod.FailedStarts = 1 }

func TestBlankMembersAreThoseWhoseOldVolumesAreGone(t *testing.T) {
	for what, test := range map[string]struct {
		state State
		want  []int
	}{
		"all are listed":                                  {state: cluster(3, of(1, begun(time.Minute)))},
		"the old volume is there":                         {state: cluster(3, of(1, removed))},
		"the old volume is stopping":                      {state: cluster(3, of(1, halfGone))},
		"the old pod has the data":                        {state: cluster(3, volatile, of(1, removed, func(m *Member) { m.Last.Volume = m.Pod.UID }))},
		"another hand has removed it":                     {state: cluster(3, of(1, byHand))},
		"the volume is new":                               {state: cluster(3, of(1, blank)), want: []int{1}},
		"the volume is gone":                              {state: cluster(3, of(1, hanging)), want: []int{1}},
		"two are new":                                     {state: cluster(5, of(1, blank), of(3, blank)), want: []int{1, 3}},
		"the last one goes by itself":                     {state: cluster(3, of(2, blank))},
		"the volume is from before a restore":             {state: cluster(3, of(1, former(Empty))), want: []int{1}},
		"nobody looked at the volume from before":         {state: cluster(3, of(1, former(Unknown))), want: []int{1}},
		"the volume from before has data of this cluster": {state: cluster(3, of(1, former(Present)))},
		"the volume from before is stopping":              {state: cluster(3, of(1, former(Empty), func(m *Member) { m.Claim.Stopping = true }))},
		"the member on it was removed":                    {state: cluster(3, of(1, former(Empty), removed))},
		"prepare has seen data":                           {state: cluster(3, of(1, blank, func(m *Member) { m.Data = Present }))},
		"the record is older than its count":              {state: cluster(3, of(1, blank, replacedBefore(1, 25*time.Hour)))},
	} {
		t.Run(what, func(t *testing.T) {
			if got := test.state.Blank(); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestWhoJoins(t *testing.T) {
	for what, test := range map[string]struct {
		is   func(*Member)
		want string
	}{
		"a member that works":                   {is: func(*Member) {}},
		"one that is lost":                      {is: empty},
		"one that waits to be added again":      {is: blank, want: name(1) + " was replaced, and joins"},
		"one that was added and does not vote":  {is: func(m *Member) { begun(time.Minute)(m); m.ID, m.Learner = 200, true }, want: name(1) + " was replaced, and joins"},
		"a learner of a cluster that grows":     {is: func(m *Member) { m.Learner = true }},
		"one that was replaced and votes again": {is: func(m *Member) { begun(time.Minute)(m); m.ID = 200 }},
	} {
		if got := cluster(3, of(1, test.is)).Joining(); got != test.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// In every state that three members can be in, a voter is touched only when it is lost, and all others work.
func TestNoStepIsTakenUnlessAllOthersWork(t *testing.T) {
	states := []func(*Member){
		func(*Member) {}, down, lags, outdatedPod, differs, stopping, empty, unreadable, full, fails, failsAgain, failsUnseen, unheard, silent,
		nodeGone, outOfService, pending, unclaimed, removed, byHand, blank, learns, early, halfGone, hanging, cordoned(time.Hour),
		func(m *Member) { empty(m); unheard(m) }, func(m *Member) { fails(m); outdatedPod(m) }, func(m *Member) { silent(m); cordoned(time.Hour)(m) },
		func(m *Member) { learns(m); fails(m); replacedBefore(1, time.Hour)(m) }, func(m *Member) { empty(m); begun(time.Minute)(m) },
		func(m *Member) { differs(m); begun(time.Minute)(m) }, func(m *Member) { silent(m); begun(time.Minute)(m) },
	}
	steps := map[Kind]int{}
	for combination := range len(states) * len(states) * len(states) {
		for _, hosts := range []int{0, 1} {
			s, rest := cluster(3, spare(hosts)), combination
			for i := range s.Members {
				states[rest%len(states)](&s.Members[i])
				rest /= len(states)
			}
			action := Decide(s)
			steps[action.Kind]++
			if action.Kind != None && action.Kind != Wait && action.Kind != NeedsDecision {
				if problem := wrong(s, action); problem != "" {
					t.Fatalf("%+v: %+v, and %s", s.Members, action, problem)
				}
			}
		}
	}
	for _, kind := range []Kind{None, Wait, NeedsDecision, Begin, MoveLeader, Remove, DeleteClaim, DeletePod} {
		if steps[kind] == 0 {
			t.Errorf("%q was never decided", kind)
		}
	}
}

// wrong says what a step breaks; empty for nothing.
func wrong(s State, action Action) string {
	target := s.Members[slices.IndexFunc(s.Members, func(m Member) bool { return m.Ordinal == action.Ordinal })]
	if action.Kind == MoveLeader {
		heir := target
		target = s.Members[slices.IndexFunc(s.Members, func(m Member) bool { return m.Leader && m.ID != 0 })]
		if heir.ID == 0 || heir.Learner || !heir.Healthy || !heir.Follows {
			return "it cannot lead"
		}
	}
	others, rolling := 0, false
	for _, m := range s.Members {
		rolling = rolling || m.Pod.Outdated
		if m.Ordinal == target.Ordinal || m.ID == 0 || m.Learner {
			continue
		}
		if others++; !m.Healthy || !m.Follows {
			return name(m.Ordinal) + " does not work"
		}
	}
	voter := target.ID != 0 && !target.Learner
	host, claim := target.Host, target.Claim
	away := !target.Healthy && (host.Gone || host.OutOfService || !host.CordonedSince.IsZero() || claim.UID == "" || claim.Lost)
	switch {
	case others < 1 || voter && others < 2:
		return "too few copies are left"
	case voter && rolling && !s.Volatile && !away:
		return "pods are rolled out"
	case voter && target.Host.Unheard && !target.Host.Gone && !target.Host.OutOfService:
		return "it may be running"
	case voter && target.Data == NoSpace && target.Host.open():
		return "its disk is full"
	case action.Kind == DeleteClaim && target.ID != 0:
		return "etcd lists it"
	case action.Kind == DeletePod && voter && target.Data != Stale:
		return "it votes"
	case action.Kind == Remove && target.Last.Of != target.ID:
		return "there is no record"
	case action.Kind == Remove && target.Leader:
		return "it leads"
	}
	return ""
}
