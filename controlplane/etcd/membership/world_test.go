package membership

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is an etcd cluster with all around it that acts in its own time. Whoever decides sees it as it is;
// the controller that follows sees what was noted last.
type world struct {
	t       *testing.T
	random  *rand.Rand
	desired int
	ids     int
	members map[int]*voter
	// noted are the members in status, joined says which of them have started.
	noted map[int]bool
	// volumes hold the id of the member that wrote them, 0 for none yet. Pods have a volume while they exist.
	volumes map[int]int
	pods    map[int]bool
	// open are files that let a member start without data.
	open map[int]bool
	// told is the number of members that API servers are to know; used those that any of them still names.
	told int
	used map[int]bool
	sick map[int]bool
	// off are pods whose host nodes are off: they cannot stop.
	off map[int]bool
	// blank are members that are not listed and have new volumes.
	blank map[int]bool
}

type voter struct {
	id               int
	learner, started bool
}

func newWorld(t *testing.T, seed uint64, members int) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), desired: members, told: members, members: map[int]*voter{}, noted: map[int]bool{},
		volumes: map[int]int{}, pods: map[int]bool{}, open: map[int]bool{}, used: map[int]bool{}, sick: map[int]bool{}, off: map[int]bool{}, blank: map[int]bool{},
	}
	for i := range members {
		w.ids++
		w.members[i], w.noted[i], w.volumes[i], w.pods[i], w.used[i] = &voter{id: w.ids, started: true}, true, w.ids, true, true
	}
	return w
}

// runs reports whether a member works: with its own data.
func (w *world) runs(ordinal int) bool {
	m := w.members[ordinal]
	return m != nil && m.started && w.pods[ordinal] && w.volumes[ordinal] == m.id && !w.sick[ordinal] && !w.off[ordinal]
}

func (w *world) voters() (all, working int) {
	for ordinal, m := range w.members {
		if !m.learner {
			all++
			if w.runs(ordinal) {
				working++
			}
		}
	}
	return all, working
}

func (w *world) quorum() bool {
	all, working := w.voters()
	return working >= all/2+1
}

func (w *world) state() State {
	s := State{
		Name: "blue-etcd-data", Desired: w.desired, Hosts: 7, Pods: slices.Collect(maps.Keys(w.pods)), Claims: slices.Collect(maps.Keys(w.volumes)),
		Open: slices.Collect(maps.Keys(w.open)), Used: slices.Collect(maps.Keys(w.used)),
	}
	s.Stuck = map[int]string{}
	for ordinal := range w.off {
		if w.members[ordinal] == nil {
			s.Stuck[ordinal] = "off"
		}
	}
	for ordinal, writtenBy := range w.volumes {
		if w.members[ordinal] == nil && w.blank[ordinal] && writtenBy == 0 {
			s.Blank = append(s.Blank, ordinal)
		}
	}
	leads := false
	for _, ordinal := range slices.Backward(slices.Sorted(maps.Keys(w.members))) {
		m := w.members[ordinal]
		leader := !leads && !m.learner && w.runs(ordinal) && w.random.IntN(2) == 0
		leads = leads || leader
		s.Members = append(s.Members, Member{
			Name: fmt.Sprintf("blue-etcd-data-%d", ordinal), Ordinal: ordinal, Started: m.started, Learner: m.learner, Healthy: w.runs(ordinal), Leader: leader,
		})
	}
	return s
}

// operate decides and acts, unless it is killed between both.
func (w *world) operate() {
	if !w.quorum() {
		return
	}
	action := Decide(w.state())
	if w.random.IntN(4) == 0 {
		return
	}
	m := w.members[action.Ordinal]
	switch action.Kind {
	case AddLearner:
		w.ids++
		w.members[action.Ordinal] = &voter{id: w.ids, learner: true}
		delete(w.blank, action.Ordinal)
	case Promote:
		if w.open[action.Ordinal] {
			w.t.Fatalf("member %d votes and could start without data", action.Ordinal)
		}
		m.learner = false
	case Remove:
		if w.used[action.Ordinal] && !m.learner {
			w.t.Fatalf("member %d is removed while API servers use it", action.Ordinal)
		}
		delete(w.members, action.Ordinal)
	case DeleteClaim:
		if m != nil || w.pods[action.Ordinal] {
			w.t.Fatalf("the volume of member %d is deleted in use", action.Ordinal)
		}
		delete(w.volumes, action.Ordinal)
		delete(w.blank, action.Ordinal)
	case None, Wait, MoveLeader:
	}
	if !w.quorum() {
		w.t.Fatalf("%+v costs the quorum: %+v", action, w.state())
	}
}

// note writes down what etcd lists; follow acts on what was noted: files, pods, and what API servers know.
func (w *world) note() {
	if !w.quorum() {
		return
	}
	clear(w.noted)
	for ordinal, m := range w.members {
		w.noted[ordinal] = m.started
	}
}

func (w *world) follow() {
	clear(w.open)
	pods, voting := 0, 0
	for ordinal, joined := range w.noted {
		pods = max(pods, ordinal+1)
		if !joined {
			w.open[ordinal] = true
		} else if m := w.members[ordinal]; m != nil && !m.learner {
			voting++
		}
	}
	for ordinal := range w.pods {
		if ordinal >= pods && !w.off[ordinal] {
			delete(w.pods, ordinal)
		}
	}
	for ordinal := range pods {
		w.pods[ordinal] = true
		if _, ok := w.volumes[ordinal]; !ok {
			w.volumes[ordinal] = 0
		}
	}
	if voting >= w.desired {
		w.told = w.desired
	}
}

// start lets a member start that may: it joins by its file, or goes on with its own data.
func (w *world) start() {
	for ordinal, m := range w.members {
		if w.pods[ordinal] && !w.off[ordinal] && w.open[ordinal] && !m.started && w.volumes[ordinal] == 0 {
			m.started, w.volumes[ordinal] = true, m.id
		}
	}
}

// roll lets all API servers run with what they were told.
func (w *world) roll() {
	clear(w.used)
	for ordinal := range w.told {
		w.used[ordinal] = true
	}
}

// replace does what recovery does for one of three and more voters: it is removed.
func (w *world) replace() {
	ordinal := w.random.IntN(7)
	m := w.members[ordinal]
	if all, working := w.voters(); m != nil && !m.learner && all >= 3 && working == all {
		delete(w.members, ordinal)
	}
}

// clear does what recovery does for members that are not listed and whose pods the StatefulSet keeps: their volumes are made
// anew.
func (w *world) clear() {
	for ordinal := range w.pods {
		if w.members[ordinal] == nil && ordinal < w.last() && !w.blank[ordinal] && !w.off[ordinal] {
			w.volumes[ordinal], w.blank[ordinal] = 0, true
		}
	}
}

// last is the highest ordinal that is listed.
func (w *world) last() int { return slices.Max(slices.Collect(maps.Keys(w.members))) }

// upset makes a member fail, or come back, or its host node, and lets a person think again.
func (w *world) upset() {
	switch w.random.IntN(7) {
	case 0:
		w.desired = []int{1, 3, 5, 7}[w.random.IntN(4)]
	case 1:
		clear(w.sick)
	case 2:
		ordinal := w.random.IntN(7)
		w.sick[ordinal] = true
		if all, working := w.voters(); working < all/2+1 {
			delete(w.sick, ordinal)
		}
	case 3:
		w.replace()
	case 4:
		clear(w.off)
	case 5:
		ordinal := w.random.IntN(7)
		w.off[ordinal] = w.pods[ordinal]
		if all, working := w.voters(); working < all/2+1 || !w.off[ordinal] {
			delete(w.off, ordinal)
		}
	}
}

// Whatever happens in whatever order, no step costs the quorum, and once nothing fails any more the members
// are the desired ones.
func TestAnyChangeKeepsTheQuorumAndComesToItsEnd(t *testing.T) {
	for seed := range uint64(1000) {
		w := newWorld(t, seed, []int{1, 3, 5}[seed%3])
		for range 200 {
			[]func(){w.operate, w.operate, w.note, w.follow, w.start, w.roll, w.upset, w.clear}[w.random.IntN(8)]()
		}
		clear(w.sick)
		clear(w.off)
		for range 200 {
			w.operate()
			w.clear()
			w.note()
			w.follow()
			w.start()
			w.roll()
		}
		if last := Decide(w.state()); last.Kind != None || len(w.members) != w.desired || len(w.used) != w.desired || len(w.volumes) != w.desired {
			t.Fatalf("seed %d: %d members are wanted, and it ends with %+v in %+v", seed, w.desired, last, w.state())
		}
		for ordinal := range w.members {
			if !w.runs(ordinal) {
				t.Fatalf("seed %d: member %d does not run", seed, ordinal)
			}
		}
	}
}
