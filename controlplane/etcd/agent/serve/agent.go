package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
)

// Options are what an agent is told when it starts.
type Options struct {
	// ConfigDir is the folder of the manager's Secret.
	ConfigDir string
	// Member is the name of the member beside the agent, Endpoint its address, and Client what etcd knows the agent by.
	Member, Endpoint string
	Client           snapshot.TLSFiles
	// Listen is the address that the manager is answered at, and Serving how both know each other.
	Listen  string
	Serving Serving
	// Scratch has room for a trial, StoreDir the snapshots where they are on a volume. Etcd is the program of etcd.
	Scratch, StoreDir, Etcd string
	// DataDir is on the volume of the member. Quota is what its database may become, in bytes.
	DataDir string
	Quota   int64
	// Program restores in a child process.
	Program snapshot.Program
	Log     *slog.Logger
	// AgentOf is the address of the agent of a member, for tests: host:port. Else it is the host of the member's client URL and the port of Listen.
	AgentOf func(member string) string
	// Now and Interval, the time between two rounds, are for tests.
	Now      func() time.Time
	Interval time.Duration
}

// interval is the time between two rounds.
const interval = 15 * time.Second

// agent is a running one.
type agent struct {
	Options
	wake chan struct{}
	// background has the rounds, and the listings that requests cause. Run waits for them before it returns.
	background sync.WaitGroup
	ctx        context.Context
	listing    listing
	// rewrites is what this agent did while it was alone. Only rounds use it.
	rewrites space.Rewrites
	// untilCopy is the number of rounds until the next look at what other members have, and failedCopies how many failed in a row. Only
	// rounds use them.
	untilCopy, failedCopies int
	// uncopied are the offers that could not be copied when that was tried last, by their text. Only rounds use it.
	uncopied map[string]bool

	lock sync.Mutex
	// heard is when the manager asked last, or the agent started.
	heard time.Time
	duty  bool
	// keysID names the key material of the files that were read last.
	keysID string
	// own is true where the store is this member's own.
	own bool
	// leaderless is true while no member tells of a leader.
	leaderless bool
	asked      []time.Time
	// unwanted are slots whose snapshots a person wants to be deleted, and when the manager said so last.
	unwanted map[time.Time]time.Time
	working  time.Time
	// problems are there until what they are of succeeds.
	problems map[kind]*backup.Problem
	// refusals are what trials said, by the slot's name, of snapshots that were read with the keys keyID.
	refusals map[string]*backup.Problem
	keyID    string
	// failures are how often tries of a slot failed in a row, and waits when the next one may begin; both by the slot's name.
	failures map[string]int
	waits    map[string]time.Time
	// volume is what was seen of the member's own volume last; nil for nothing.
	volume *backup.Volume
}

func newAgent(ctx context.Context, o Options) *agent {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Interval = cmp.Or(o.Interval, interval)
	return &agent{
		Options: o, ctx: ctx, wake: make(chan struct{}, 1), heard: o.Now(),
		problems: map[kind]*backup.Problem{}, refusals: map[string]*backup.Problem{}, failures: map[string]int{}, waits: map[string]time.Time{},
		unwanted: map[time.Time]time.Time{},
	}
}

// Run takes snapshots and answers the manager until the context ends. It fails only where it cannot listen.
func Run(ctx context.Context, o Options) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("answer the manager: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := newAgent(ctx, o)
	a.background.Go(func() { a.rounds(ctx) })
	go a.look(ctx) // Run does not wait for look: a disk that hangs must not keep the agent from ending.
	err = a.listen(ctx, l)
	cancel()
	a.background.Wait()
	return err
}

// rounds takes one step after the other.
func (a *agent) rounds(ctx context.Context) {
	for {
		a.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-time.After(a.Interval):
		}
	}
}

// round makes room where etcd is full and the manager away, and takes at most one step with snapshots. What panics is a problem as any
// other.
func (a *agent) round(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			a.Log.Error("a round panicked", "panic", p, "stack", string(debug.Stack()))
			a.failed(ofConfig, time.Time{}, errors.New("the agent panicked: look at the log of the container "+backup.Container))
		}
	}()
	if err := a.makeRoom(ctx); err != nil && ctx.Err() == nil {
		a.Log.Warn("could not find out whether etcd is full, or could not make room in it", "error", limited(err.Error()))
	}
	s, err := a.open()
	if err != nil {
		a.setDuty(false)
		a.failed(ofConfig, time.Time{}, err)
		return
	}
	defer s.store.Close()
	a.forgetRefusals(s.keyID)
	a.setConfig(s.config)
	a.listing.begin(s.id)
	if s.config.Store.PerMember {
		// When etcd has no quorum, people need to know whose volume has a snapshot. A report tells what fails.
		_ = a.list(ctx, s)
	}
	peers, err := askPeers(ctx, a.Endpoint, a.Client)
	if ctx.Err() != nil {
		return
	}
	duty := onDuty(peers)
	a.setDuty(duty == a.Member)
	a.setLeaderless(duty == "")
	switch {
	case err != nil:
		a.failed(ofConfig, time.Time{}, err)
		return
	case duty == "":
		a.failed(ofConfig, time.Time{}, errors.New("no member of etcd is healthy: nobody takes snapshots"))
		return
	}
	a.succeeded(ofConfig)
	a.step(ctx, s)
	a.copyMissing(ctx, s, peers)
}

// step decides, and decides again on what is in the store now before it does anything.
func (a *agent) step(ctx context.Context, s session) {
	v := a.view(s)
	if next(v).do == nothing {
		// What failed may have been done by others.
		if v.waits, v.offset = nil, 0; next(v).do == nothing {
			a.succeeded(ofWork)
		}
		return
	}
	slot := next(v).slot
	if err := a.list(ctx, s); err != nil {
		a.tried(ctx, slot, err)
		return
	}
	now := next(a.view(s))
	if now.do == nothing {
		return
	}
	a.tried(ctx, now.slot, a.carryOut(ctx, s, now))
	_ = a.list(ctx, s) // A report tells it.
}

// view is what the next step depends on. It drops requests for snapshots that are there.
func (a *agent) view(s session) view {
	entries := a.listing.of(s.id)
	a.lock.Lock()
	defer a.lock.Unlock()
	v := view{now: a.Now(), every: s.config.Every, offset: offsetOf(s.config.Cluster, s.config.Every), member: a.Member, onDuty: a.duty, own: s.config.Store.PerMember, entries: entries, refused: map[string]bool{}, waits: map[string]time.Time{}}
	for slot := range a.refusals {
		v.refused[slot] = true
	}
	for slot, until := range a.waits {
		if v.waits[slot] = until; v.now.Sub(until) > mostBehind {
			delete(a.waits, slot)
			delete(a.failures, slot)
		}
	}
	a.asked = slices.DeleteFunc(a.asked, func(slot time.Time) bool { return v.settled(slot) || v.now.Sub(slot) > mostBehind+mostAhead })
	v.asked = slices.Clone(a.asked)
	maps.DeleteFunc(a.unwanted, func(_, said time.Time) bool { return v.now.Sub(said) > saidAgain })
	v.unwanted = slices.SortedFunc(maps.Keys(a.unwanted), time.Time.Compare)
	return v
}

// ask has a slot taken whoever is on duty, now.
func (a *agent) ask(slot time.Time) error {
	a.lock.Lock()
	defer a.lock.Unlock()
	if !slices.ContainsFunc(a.asked, slot.Equal) {
		if len(a.asked) >= mostAsked {
			return errAskedTooMuch
		}
		a.asked = append(a.asked, slot)
	}
	delete(a.waits, archive.SlotName(slot))
	select {
	case a.wake <- struct{}{}:
	default: // It will look anyhow.
	}
	return nil
}

// saidAgain is how long a request to delete counts. The manager says it again until the snapshot is gone.
const saidAgain = 10 * time.Minute

// unwant asks the agent to delete the snapshot of a slot. The agent does so although another member may be on duty. Where the store did not have
// it when it was read last, there is nothing to delete, and the request takes no place: the manager says it again.
func (a *agent) unwant(slot time.Time) error {
	entries, at := a.listing.last()
	if !at.IsZero() && !slices.ContainsFunc(entries, func(e snapshot.Entry) bool { return e.Slot.Equal(slot) }) {
		return nil
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	if _, there := a.unwanted[slot]; !there && len(a.unwanted) >= mostAsked {
		return errAskedTooMuch
	}
	a.unwanted[slot] = a.Now()
	select {
	case a.wake <- struct{}{}:
	default: // It will look anyhow.
	}
	return nil
}

func (a *agent) setDuty(duty bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.duty != duty {
		a.Log.Info("duty has changed", "member", a.Member, "onDuty", duty)
	}
	a.duty = duty
}

// setConfig notes what reports tell of the files that were read.
func (a *agent) setConfig(c backup.Config) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.own, a.keysID = c.Store.PerMember, c.KeysID
}

func (a *agent) setLeaderless(leaderless bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.leaderless = leaderless
}

func (a *agent) isLeaderless() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.leaderless
}

// forgetRefusals drops what was refused with other keys.
func (a *agent) forgetRefusals(keyID string) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.keyID != keyID {
		a.keyID = keyID
		clear(a.refusals)
	}
}
