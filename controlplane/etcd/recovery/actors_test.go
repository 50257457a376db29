package recovery

import (
	"maps"
	"slices"
	"time"
)

// note writes down what etcd lists.
func (w *world) note() {
	if !w.quorum() {
		return
	}
	clear(w.noted)
	for ordinal, m := range w.members {
		w.noted[ordinal] = m.started
	}
}

// follow acts on what was noted: files, and what API servers are told.
func (w *world) follow() {
	before, voting := maps.Clone(w.open), 0
	clear(w.open)
	for ordinal, joined := range w.noted {
		if since, open := before[ordinal]; !joined && open {
			w.open[ordinal] = since
		} else if !joined {
			w.open[ordinal] = w.now
		} else if m := w.members[ordinal]; m != nil && !m.learner {
			voting++
		}
	}
	if voting >= w.desired {
		w.told = w.desired
	}
}

// roll lets all API servers run with what they were told.
func (w *world) roll() {
	clear(w.used)
	for ordinal := range w.told {
		w.used[ordinal] = true
	}
}

// statefulSet makes pods and claims that are missing, and stops the pods of the last. Its cache may be late, so that a pod
// comes without its claim.
func (w *world) statefulSet() {
	pods := 0
	for ordinal := range w.noted {
		pods = max(pods, ordinal+1)
	}
	for ordinal := range pods {
		c := w.claims[ordinal]
		if w.pods[ordinal] != nil || c != nil && c.stopping {
			continue
		}
		if c == nil && w.kind != inPod && w.random.IntN(4) > 0 {
			w.claims[ordinal] = &claim{volume: &volume{}, uid: w.uid()}
		}
		w.pods[ordinal] = w.newPod()
	}
	for ordinal, p := range w.pods {
		if ordinal >= pods {
			p.stopping = true
		}
	}
}

// schedule gives pods their nodes.
func (w *world) schedule() {
	for ordinal := range 9 {
		p, c := w.pods[ordinal], w.claims[ordinal]
		if p == nil || p.host != nil || p.stopping || w.kind != inPod && (c == nil || c.stopping) {
			continue
		}
		for _, i := range w.random.Perm(len(w.hosts)) {
			if h := w.hosts[i]; w.takes(h) && (w.kind != onHost || c.host == nil || c.host == h) {
				p.host = h
				if c != nil {
					c.host = h
				}
				break
			}
		}
	}
}

// collect takes away pods that have ended, and claims that nobody uses any more.
func (w *world) collect() {
	for ordinal, p := range w.pods {
		h := p.host
		if p.stopping && (h == nil || !h.unheard) || h != nil && (h.gone || h.outOfService && h.unheard) {
			delete(w.pods, ordinal)
		}
	}
	for ordinal, c := range w.claims {
		if p := w.pods[ordinal]; c.stopping && (p == nil || p.host == nil) {
			delete(w.claims, ordinal)
		}
	}
}

// kubelets start what shall run, and etcd ends where it must not.
func (w *world) kubelets() {
	for ordinal := range 9 {
		p := w.pods[ordinal]
		if p == nil || p.host == nil || p.host.off || p.stopping {
			continue
		}
		if p.volume == nil && !w.mount(ordinal, p) {
			continue
		}
		m := w.members[ordinal]
		if p.up && (m == nil || p.volume.writtenBy != m.id || p.volume.full) {
			p.up = false // It was removed, or its data is gone.
		}
		if !p.up && !w.now.Before(p.again) {
			w.start(ordinal, p)
		}
		if p.up && m != nil && !m.learner && p.data != Unknown {
			p.data = Stale
		}
	}
	if !w.runs(w.leader) || w.members[w.leader].learner {
		for _, ordinal := range w.ordinals() {
			if m := w.members[ordinal]; m != nil && !m.learner && w.runs(ordinal) {
				w.leader = ordinal
			}
		}
	}
}

// mount gives a pod its volume, unless its claim is gone or goes.
func (w *world) mount(ordinal int, p *pod) bool {
	c := w.claims[ordinal]
	switch {
	case w.kind == inPod:
		p.volume = &volume{host: p.host}
	case c == nil || c.stopping:
		return false
	default:
		p.volume = c.volume
	}
	p.pending = time.Time{}
	return true
}

// start has prepare look, once a pod and again while the disk is full, and etcd start. Without data it joins, if its file lets it and etcd lists it; with
// those of another member it ends.
func (w *world) start(ordinal int, p *pod) {
	m, v := w.members[ordinal], p.volume
	if (p.data == Unknown || p.data == NoSpace) && !w.bare {
		p.data = v.look()
	}
	_, open := w.open[ordinal]
	joins := m != nil && m.learner && !m.started && open && v.writtenBy == 0 && w.quorum()
	if p.up = !v.full && !v.unreadable && !v.broken && (joins || m != nil && m.started && v.writtenBy == m.id); !p.up {
		p.failed++
		p.again = w.now.Add(min(10*time.Second<<min(p.failed-1, 5), 5*time.Minute))
		return
	}
	p.failed = 0
	if joins {
		m.started, v.writtenBy = true, m.id
	}
}

func (v *volume) look() Data {
	switch {
	case v.full:
		return NoSpace
	case v.unreadable:
		return Unreadable
	case v.writtenBy == 0:
		return Empty
	}
	return Present
}

// upset breaks something, or repairs it. Data is broken only while a majority has all of it, and can work.
func (w *world) upset() {
	ordinal := w.random.IntN(7)
	m, p := w.members[ordinal], w.pods[ordinal]
	h := w.hosts[w.random.IntN(len(w.hosts))]
	if p != nil && p.host != nil && w.random.IntN(2) == 0 {
		h = p.host
	}
	happens := w.random.IntN(20)
	if w.mild && happens > 7 {
		if w.unsettled() != "" {
			return
		}
		happens = max(happens, 11)
		w.now = w.now.Add(24 * time.Hour)
	}
	switch happens {
	case 0:
		w.desired, w.scaled = []int{1, 3, 5, 7}[w.random.IntN(4)], true
	case 1:
		w.now = w.now.Add(time.Duration(w.random.IntN(40)) * time.Hour)
	case 2, 3:
		w.heal()
	case 4: // A process is killed.
		if p != nil {
			p.up = false
		}
	case 5: // A host node is off, or only cut off.
		h.unheard, h.off = true, w.random.IntN(2) == 0
		w.reboot(h)
	case 6: // It is cordoned, and drained perhaps.
		if h.cordoned.IsZero() {
			h.cordoned = w.now.Add(-time.Duration(w.random.IntN(30)) * time.Minute)
			if w.random.IntN(2) == 0 {
				w.drain(h)
			}
		}
	case 7:
		h.cordoned = time.Time{}
	case 8:
		w.revision++
	case 9: // Its disk is full.
		if p != nil && p.volume != nil {
			p.volume.full = true
		}
	case 10: // Another hand removes it.
		if all, working := w.voters(w.runs); m != nil && all > 2 && working == all && w.majority(w.intact) {
			w.remove(ordinal)
		}
	case 11, 12: // A host node is gone for good.
		if len(w.hosts) < 12 && w.mayLose(h) {
			h.unheard, h.off = true, true
			h.gone, h.outOfService = w.random.IntN(2) == 0, true
			w.reboot(h)
			w.addHost()
		}
	default:
		if p != nil && p.volume != nil && m != nil && w.mayBreak(ordinal) {
			w.damage(ordinal, p)
		}
	}
}

// drain evicts the pod from a host node, if the budget lets it: all members work.
func (w *world) drain(h *host) {
	all, working := w.voters(func(ordinal int) bool { return w.runs(ordinal) && !w.pods[ordinal].stopping })
	for _, p := range w.pods {
		if p.host == h && all > 2 && working == all && w.mayLose(h) {
			p.stopping = true
		}
	}
}

// damage breaks the data of a member.
func (w *world) damage(ordinal int, p *pod) {
	w.steps["damage"]++
	switch c := w.claims[ordinal]; w.random.IntN(5) {
	case 0:
		p.volume.writtenBy = 0
	case 1:
		p.volume.unreadable = true
	case 2:
		p.volume.broken = true
	case 3:
		p.volume.differs = true
		return
	default:
		p.stopping = true
		if c != nil {
			c.stopping = true
		}
	}
	if p.up = false; w.random.IntN(2) == 0 {
		p.data = Unknown // Its host node was started again, and prepare looks again.
	}
}

// mayBreak reports whether a majority has all data and works without a member.
func (w *world) mayBreak(ordinal int) bool {
	but := func(is func(int) bool) func(int) bool {
		return func(other int) bool { return other != ordinal && is(other) }
	}
	m := w.members[ordinal]
	return m == nil || m.learner || w.majority(but(w.intact)) && w.majority(but(w.runs))
}

// mayLose reports whether that is so without a host node.
func (w *world) mayLose(h *host) bool {
	for ordinal := range w.members {
		p, c := w.pods[ordinal], w.claims[ordinal]
		if (p != nil && p.host == h || c != nil && c.host == h) && !w.mayBreak(ordinal) {
			return false
		}
	}
	return true
}

// reboot ends what runs on a host node that is off; prepare looks again when it is on.
func (w *world) reboot(h *host) {
	for _, p := range w.pods {
		if p.host == h && h.off {
			p.up, p.data = false, Unknown
		}
	}
}

// heal ends all that ends by itself.
func (w *world) heal() {
	for _, h := range w.hosts {
		if !h.gone && !h.outOfService {
			h.unheard, h.off = false, false
		}
	}
	for _, c := range w.claims {
		c.full = false
	}
	for _, p := range w.pods {
		if p.volume != nil {
			p.volume.full = false
		}
	}
}

// provide has as many host nodes as members need, and one more.
func (w *world) provide() {
	w.heal()
	usable := 0
	for _, h := range w.hosts {
		if !h.gone && !h.outOfService && h.cordoned.IsZero() {
			usable++
		}
	}
	for range max(0, max(w.desired, len(w.members))+1-usable) {
		w.addHost()
	}
}

// person does what messages ask for: brings host nodes back, also from members without data that took those of others,
// removes a member that does not work, or the record of one that was tried twice.
func (w *world) person() {
	w.steps["person"]++
	for ordinal, record := range w.records {
		if record.Try >= maxTries {
			delete(w.records, ordinal)
		}
	}
	if !w.quorum() {
		for _, h := range w.hosts {
			h.cordoned = time.Time{}
		}
		for ordinal, p := range w.pods {
			if c := w.claims[ordinal]; p.volume != nil && p.volume.writtenBy == 0 && c != nil {
				p.stopping, c.stopping = true, true
			}
		}
	}
	for _, ordinal := range slices.Backward(w.ordinals()) {
		if m := w.members[ordinal]; m != nil && (!w.runs(ordinal) || !w.intact(ordinal)) {
			if w.remove(ordinal); w.members[ordinal] == nil {
				return
			}
		}
	}
}
