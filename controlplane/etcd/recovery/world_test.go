package recovery

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rollout"
)

// world is an etcd cluster with all around it that acts in its own time: etcd itself, kubelets, the host cluster's
// controllers, the controller that follows what etcd lists, and those who break things.
type world struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	now    time.Time
	kind   storage
	// bare is true for pods without prepare. In a mild world one thing breaks at a time, and no pods are rolled out.
	bare, mild bool
	// scaled is true once another number of members was wanted: one that left and is wanted again at once comes with what it
	// left, and is replaced.
	scaled  bool
	desired int
	ids     int
	hosts   []*host
	members map[int]*voter
	leader  int
	// noted are the members in status, with whether they have started. The StatefulSet and the files follow it.
	noted    map[int]bool
	pods     map[int]*pod
	claims   map[int]*claim
	records  map[int]Replacement
	revision int
	// used are members that API servers name, told is how many they are to name.
	used map[int]bool
	told int
	// open is since when a member's file lets it join.
	open map[int]time.Time
	// seen is what was read some time ago.
	seen State
	// steps counts what was done, by whom.
	steps map[string]int
}

// storage is where members keep their data.
type storage int

const (
	onHost storage = iota
	onNetwork
	inPod
)

type host struct {
	name string
	// off is true for one that does not run, unheard for one that the host cluster does not hear from.
	off, unheard, gone, outOfService bool
	cordoned                         time.Time
}

type voter struct {
	id               int
	learner, started bool
}

// volume holds what a member has written; writtenBy is zero for nothing. A broken one looks well, and etcd does not start.
type volume struct {
	writtenBy                         int
	host                              *host
	unreadable, broken, full, differs bool
}

type claim struct {
	*volume
	uid      string
	stopping bool
}

type pod struct {
	uid      string
	host     *host
	volume   *volume
	stopping bool
	revision int
	pending  time.Time
	// made is when it was made. Kubelet does not start etcd before again, once it has failed.
	made, again time.Time
	failed      int
	data        Data
	// up is true while etcd runs.
	up bool
}

func newWorld(t *testing.T, seed uint64, members int) *world {
	w := &world{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), now: now, kind: storage(max(0, int(seed%5)-2)),
		bare: seed%14 == 13, mild: seed%2 == 0,
		desired: members, told: members, members: map[int]*voter{}, noted: map[int]bool{}, open: map[int]time.Time{}, pods: map[int]*pod{},
		claims: map[int]*claim{}, records: map[int]Replacement{}, used: map[int]bool{}, steps: map[string]int{},
	}
	for range members + 2 {
		w.addHost()
	}
	for i := range members {
		w.members[i], w.noted[i], w.used[i] = &voter{id: w.id(), started: true}, true, true
		w.pods[i] = w.newPod()
		w.claims[i] = &claim{volume: &volume{host: w.hosts[i], writtenBy: w.members[i].id}, uid: w.uid()}
		w.pods[i].host, w.pods[i].volume, w.pods[i].up, w.pods[i].pending = w.hosts[i], w.claims[i].volume, true, time.Time{}
		if w.kind == inPod {
			delete(w.claims, i)
		}
	}
	return w
}

func (w *world) id() int { w.ids++; return w.ids }

func (w *world) uid() string { return fmt.Sprint("uid-", w.id()) }

func (w *world) newPod() *pod {
	return &pod{uid: w.uid(), revision: w.revision, pending: w.now, made: w.now}
}

func (w *world) addHost() { w.hosts = append(w.hosts, &host{name: fmt.Sprint("host-", len(w.hosts))}) }

// fail ends the test.
func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s\n%s", w.seed, fmt.Sprintf(format, args...), w)
}

func (w *world) String() string {
	text := fmt.Sprintf("at %s %d members are wanted, the leader is %d\n", w.now.Format(time.DateTime), w.desired, w.leader)
	for _, m := range w.state().Members {
		text += fmt.Sprintf("%+v, has started: %t\n", m, w.noted[m.Ordinal])
	}
	return text
}

// runs reports whether a member works: with its own data.
func (w *world) runs(ordinal int) bool {
	m, p := w.members[ordinal], w.pods[ordinal]
	return m != nil && m.started && p != nil && p.up && p.volume.writtenBy == m.id && !p.volume.full
}

// intact reports whether a member has the data that it acknowledged, whether it runs or not.
func (w *world) intact(ordinal int) bool {
	m := w.members[ordinal]
	var v *volume
	if c := w.claims[ordinal]; c != nil && !c.stopping {
		v = c.volume
	} else if p := w.pods[ordinal]; w.kind == inPod && p != nil && !p.stopping {
		v = p.volume
	}
	return m != nil && v != nil && v.writtenBy == m.id && !v.unreadable && !v.broken && !v.differs &&
		(w.kind == onNetwork || v.host != nil && !v.host.gone && !v.host.outOfService)
}

// voters is how many members vote, and for how many of them something is true.
func (w *world) voters(is func(int) bool) (all, are int) {
	for ordinal, m := range w.members {
		if !m.learner {
			if all++; is(ordinal) {
				are++
			}
		}
	}
	return all, are
}

func (w *world) majority(is func(int) bool) bool {
	all, are := w.voters(is)
	return are > all/2
}

func (w *world) quorum() bool { return w.majority(w.runs) }

// ordinals are those of members that are wanted or listed.
func (w *world) ordinals() []int {
	var ordinals []int
	for ordinal := range 9 {
		if ordinal < w.desired || w.members[ordinal] != nil {
			ordinals = append(ordinals, ordinal)
		}
	}
	return ordinals
}

// state is what the operator reads now.
func (w *world) state() State {
	s, quorum := State{Now: w.now, Volatile: w.kind == inPod}, w.quorum()
	for _, h := range w.hosts {
		if w.takes(h) {
			s.Spare++
		}
	}
	for _, ordinal := range w.ordinals() {
		m := Member{Name: name(ordinal), Ordinal: ordinal, Last: w.records[ordinal]}
		if listed := w.members[ordinal]; listed != nil && quorum {
			m.ID, m.Started, m.Learner, m.Leader = uint64(listed.id), listed.started, listed.learner, ordinal == w.leader //nolint:gosec // A handful.
		}
		if c := w.claims[ordinal]; c != nil {
			m.Claim = Claim{UID: c.uid, Stopping: c.stopping, Tied: c.host != nil && w.kind == onHost}
			if m.Claim.Tied {
				m.Host = c.host.fact()
			}
		}
		if p := w.pods[ordinal]; p != nil {
			m.Pod, m.Data = Pod{UID: p.uid, Stopping: p.stopping, Outdated: p.revision != w.revision, PendingSince: p.pending, FailedStarts: p.failed}, p.data
			m.Healthy = w.runs(ordinal) && !p.stopping
			m.Pod.Early = m.ID != 0 && w.early(ordinal)
			m.Follows, m.Differs = m.Healthy && quorum, m.Healthy && p.volume.differs && quorum
			if p.host != nil {
				m.Host = p.host.fact()
			}
		}
		s.Members = append(s.Members, m)
	}
	return s
}

// early reports whether the pod of a learner is older than the file that lets it join, and kubelet waits before it starts etcd.
func (w *world) early(ordinal int) bool {
	m, p := w.members[ordinal], w.pods[ordinal]
	since, open := w.open[ordinal]
	return m.learner && !m.started && open && !p.made.After(since) && w.now.Before(p.again)
}

func (h *host) fact() Host {
	return Host{Name: h.name, Unheard: h.unheard && !h.gone, Gone: h.gone, OutOfService: h.outOfService && !h.gone, CordonedSince: h.cordoned}
}

// takes reports whether a host node takes a pod of the cluster.
func (w *world) takes(h *host) bool {
	for _, p := range w.pods {
		if p.host == h {
			return false
		}
	}
	return !h.unheard && !h.gone && !h.outOfService && h.cordoned.IsZero()
}

// membership is what membership is told.
func (w *world) membership(s State) membership.State {
	state := membership.State{
		Name: "blue-etcd-data", Desired: w.desired, Blank: s.Blank(), Pods: slices.Sorted(maps.Keys(w.pods)), Claims: slices.Sorted(maps.Keys(w.claims)),
		Open: slices.Sorted(maps.Keys(w.open)), Used: slices.Sorted(maps.Keys(w.used)),
	}
	for _, h := range w.hosts {
		if !h.gone {
			state.Hosts++
		}
	}
	for _, m := range s.Members {
		if m.ID != 0 {
			state.Members = append(state.Members, membership.Member{
				Name: m.Name, Ordinal: m.Ordinal, Started: m.Started, Learner: m.Learner, Leader: m.Leader, Healthy: m.Healthy, Differs: m.Differs,
			})
		}
	}
	return state
}

// rollout is what rollout is told.
func (w *world) rollout(s State) rollout.State {
	state := rollout.State{Volatile: s.Volatile}
	for _, m := range s.Members {
		if m.Learner {
			state.Unsettled = "its members change"
		}
		state.Members = append(state.Members, rollout.Member{
			Name: m.Name, Ordinal: m.Ordinal, Exists: m.Pod.UID != "", Outdated: m.Pod.Outdated, Stopping: m.Pod.Stopping, Host: m.Host.Name, Lost: m.Host.Unheard,
			Ready: m.Healthy && m.votes(), Answers: m.Healthy, InQuorum: m.works() && m.votes(), Leader: m.Leader,
		})
	}
	return state
}

// operate is one run of the operator. It may be killed before it acts. What it was told may be old, in part or all of it.
func (w *world) operate() {
	s, fresh := w.state(), true
	if w.random.IntN(8) == 0 {
		s, fresh = w.late(s), false
	}
	if w.random.IntN(4) == 0 {
		w.seen = w.state()
	}
	action := Decide(s)
	if w.random.IntN(4) == 0 {
		return
	}
	if action.isStep() {
		w.recover(s, action, fresh)
		if w.random.IntN(4) == 0 {
			w.recover(s, action, false)
		}
		return
	}
	if !w.quorum() {
		return
	}
	if next := membership.Decide(w.membership(w.state())); next.Kind != membership.None && next.Kind != membership.Wait {
		w.change(next)
		return
	}
	next := rollout.Decide(w.rollout(w.state()))
	for ordinal, p := range w.pods {
		switch name(ordinal) {
		case next.Lead:
			w.leader = ordinal
		case next.Replace:
			p.stopping = true
		}
	}
}

// late is a state of which etcd, or the host cluster, or both, were read some time ago.
func (w *world) late(s State) State {
	if len(w.seen.Members) != len(s.Members) || w.random.IntN(3) == 0 {
		return w.seen
	}
	mixed := w.seen
	mixed.Now, mixed.Members = s.Now, slices.Clone(s.Members)
	for i := range mixed.Members {
		m, old := &mixed.Members[i], w.seen.Members[i]
		m.ID, m.Started, m.Learner, m.Leader, m.Healthy, m.Follows, m.Differs = old.ID, old.Started, old.Learner, old.Leader, old.Healthy, old.Follows, old.Differs
	}
	return mixed
}

// recover takes a step of recovery, as API servers and etcd let it: what it is about must be the same as it was told.
func (w *world) recover(s State, action Action, fresh bool) {
	told := s.Members[slices.IndexFunc(s.Members, func(m Member) bool { return m.Ordinal == action.Ordinal })]
	ordinal := action.Ordinal
	m, p, c := w.members[ordinal], w.pods[ordinal], w.claims[ordinal]
	if fresh {
		w.allowed(s, action)
	}
	w.steps[string(action.Kind)]++
	had := w.quorum()
	switch action.Kind {
	case Begin:
		if w.records[ordinal] == told.Last { // The resource version of the Service.
			w.records[ordinal] = s.Record(action)
		}
	case MoveLeader:
		if m != nil && !m.learner && w.runs(ordinal) {
			w.leader = ordinal
		}
	case Remove:
		if m != nil && uint64(m.id) == told.ID { //nolint:gosec // A handful.
			w.remove(ordinal)
		}
	case DeleteClaim:
		if c != nil && c.uid == told.Claim.UID && m == nil {
			w.lastCopy(ordinal, c.volume)
			c.stopping = true
		}
	case DeletePod:
		if p != nil && p.uid == told.Pod.UID && (m != nil) == (told.ID != 0) {
			w.lastCopy(ordinal, p.volume)
			p.stopping = true
			if told.Pod.Early {
				w.steps["early"]++
			}
		}
	default:
		w.fail("it does %+v", action)
	}
	if had && !w.quorum() {
		w.fail("%+v costs the quorum", action)
	}
}

// lastCopy fails when what goes is the last that has all data.
func (w *world) lastCopy(ordinal int, v *volume) {
	if v == nil {
		return
	}
	for other := range w.members {
		if other != ordinal && w.intact(other) {
			return
		}
	}
	w.fail("the last copy, of member %d, is deleted", ordinal)
}

// remove removes a member as etcd does: it needs a quorum, and refuses what leaves none.
func (w *world) remove(ordinal int) {
	all, working := w.voters(w.runs)
	if !w.quorum() || !w.members[ordinal].learner && (all == 1 || w.runs(ordinal) && working-1 < 1+(all-1)/2) {
		return
	}
	delete(w.members, ordinal)
}

// allowed fails for a step that the state of the world, as it really is, does not allow.
func (w *world) allowed(s State, action Action) {
	if !w.quorum() {
		w.fail("%+v, and there is no quorum", action)
	}
	if problem := wrong(s, action); problem != "" {
		w.fail("%+v, and %s", action, problem)
	}
	told := s.Members[slices.IndexFunc(s.Members, func(m Member) bool { return m.Ordinal == action.Ordinal })]
	if (action.Kind == Begin || action.Kind == Remove) && told.votes() && w.intact(action.Ordinal) && told.Host.CordonedSince.IsZero() {
		w.fail("%+v, and nothing is wrong with its data", action)
	}
}

// change takes a step of membership.
func (w *world) change(action membership.Action) {
	ordinal := action.Ordinal
	m := w.members[ordinal]
	w.steps[string(action.Kind)]++
	switch action.Kind {
	case membership.AddLearner:
		if c := w.claims[ordinal]; w.mild && !w.scaled && c != nil && c.writtenBy != 0 {
			w.fail("member %d is added again with old data", ordinal)
		}
		w.members[ordinal] = &voter{id: w.id(), learner: true}
	case membership.Promote:
		if _, open := w.open[ordinal]; open {
			w.fail("member %d votes and could start without data", ordinal)
		}
		m.learner = false
		if p := w.pods[ordinal]; p != nil && p.up && p.data != Unknown {
			p.data = Stale // It is ready within a second.
		}
	case membership.MoveLeader:
		w.leader = ordinal
	case membership.Remove:
		w.remove(ordinal)
	case membership.DeleteClaim:
		if m != nil || w.pods[ordinal] != nil {
			w.fail("the volume of member %d is deleted in use", ordinal)
		}
		w.lastCopy(ordinal, w.claims[ordinal].volume)
		w.claims[ordinal].stopping = true
	case membership.None, membership.Wait:
	}
	if !w.quorum() {
		w.fail("%+v costs the quorum", action)
	}
}

// round has all act once, and a minute pass.
func (w *world) round() {
	for _, act := range w.actors() {
		act()
	}
	w.now = w.now.Add(time.Minute)
}

func (w *world) actors() []func() {
	return []func(){w.operate, w.note, w.follow, w.roll, w.statefulSet, w.schedule, w.kubelets, w.collect}
}

// unsettled says what is not as it shall be; empty for nothing.
func (w *world) unsettled() string {
	s := w.state()
	if len(w.members) != w.desired || len(w.pods) != w.desired || w.kind != inPod && len(w.claims) != w.desired {
		return "there are too few or too many"
	}
	ids := map[int]bool{}
	for _, m := range s.Members {
		if p := w.pods[m.Ordinal]; p != nil && p.volume != nil {
			ids[p.volume.writtenBy] = true
		}
		if !m.votes() || !m.works() || m.Differs || m.Pod.Outdated && !s.Volatile {
			return fmt.Sprintf("member %d is not well", m.Ordinal)
		}
	}
	if len(ids) != w.desired {
		return "members have the same ID"
	}
	if next := Decide(s); next.Kind != None {
		return next.Reason
	}
	return string(membership.Decide(w.membership(s)).Kind)
}

// Whatever happens in whatever order, no step costs the quorum or the last copy, none is taken without need, and once nothing
// fails any more all members work with their own data.
func TestMembersAreReplacedAndNoStepCostsTheQuorum(t *testing.T) {
	steps := map[string]int{}
	for seed := range uint64(1000) {
		w := newWorld(t, seed, []int{3, 5, 3, 7, 1}[seed%5])
		for range 150 {
			actors := append(w.actors(), w.operate, w.upset)
			actors[w.random.IntN(len(actors))]()
			w.now = w.now.Add(time.Duration(w.random.IntN(60)) * time.Second)
		}
		w.provide()
		for round := 0; w.unsettled() != ""; round++ {
			if round == 600 {
				w.fail("it ends with %q and %q", w.unsettled(), Decide(w.state()).Reason)
			}
			if round%40 == 39 && !w.mild {
				w.person()
			}
			w.round()
		}
		for step, count := range w.steps {
			steps[step] += count
		}
	}
	t.Log(steps)
	for step, atLeast := range map[Kind]int{Begin: 100, MoveLeader: 100, Remove: 100, DeleteClaim: 100, DeletePod: 100, "early": 50} {
		if steps[string(step)] < atLeast {
			t.Errorf("%s was done %d times, want %d", step, steps[string(step)], atLeast)
		}
	}
}

// A member whose pod came before etcd listed it has failed again and again, so that kubelet waits. It joins long before kubelet tries again.
func TestAMemberWhosePodCameEarlyJoinsSoon(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(t, seed, 3)
		if w.kind == inPod {
			continue
		}
		w.waitsToBeAdded(1)
		begun := w.now
		for w.unsettled() != "" {
			for _, act := range w.actors() {
				act()
			}
			if w.now = w.now.Add(10 * time.Second); w.now.Sub(begun) > 4*time.Minute {
				w.fail("after %s it says %q", w.now.Sub(begun), w.unsettled())
			}
		}
	}
}

// waitsToBeAdded has a member blank and not listed. Etcd failed in its pod six times, so that kubelet waits for five minutes.
func (w *world) waitsToBeAdded(ordinal int) {
	w.records[ordinal] = Replacement{Of: uint64(w.members[ordinal].id), Volume: "former", Begun: w.now.Add(-time.Minute), Try: 1} //nolint:gosec // A handful.
	delete(w.members, ordinal)
	delete(w.noted, ordinal)
	p := w.newPod()
	w.claims[ordinal] = &claim{volume: &volume{host: w.hosts[ordinal]}, uid: w.uid()}
	p.host, p.volume, p.pending, p.data = w.hosts[ordinal], w.claims[ordinal].volume, time.Time{}, Empty
	p.failed, p.again = 6, w.now.Add(5*time.Minute)
	w.pods[ordinal] = p
}
