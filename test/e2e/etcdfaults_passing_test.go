//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/damage"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/clock"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

const (
	// stopped and stoppedLong are how long the leader is stopped. Kubelet ends a member that does not answer for the longer one.
	stopped     = 30 * time.Second
	stoppedLong = 3 * time.Minute
	// disturbance is how long a host is separated from others, a clock is wrong and a disk slow.
	disturbance = time.Minute
	// wrong is how far a clock is off, and slowness how much longer each write and each sync of a disk takes.
	wrong    = 10 * time.Minute
	slowness = 500 * time.Millisecond
)

// etcdFault is one that etcd comes through by itself, with a quorum left.
type etcdFault struct {
	// label is that of its spec, text is what etcd does, and fault what is done to it, as its row has it.
	label, text, fault string
	// disks are how many members are put on disks that can fail; the fault hits the first of them.
	disks int
	// follower is true for a fault that hits a member that does not lead. Others hit the leader, who leads on the disk where there is one.
	follower bool
	// replaced is true for a fault that costs a follower its data, so that it is replaced.
	replaced bool
	// do does it to a member, and returns when it is over.
	do func(ctx context.Context, s *struck, member string)
}

// passingFaults pass, and cost no member. They are those of a soak, too.
var passingFaults = []etcdFault{
	{label: "killed", text: "starts a member that was killed again", fault: "a member is killed", follower: true, do: killMember},
	{label: "leader_stopped", text: "goes on without its leader while that is stopped, and takes it back", fault: "the leader is stopped for 30 s", do: stopFor(stopped)},
	{label: "leader_stopped_long", text: "goes on without its leader, which kubelet ends, and takes it back", fault: "the leader is stopped for 3 min", do: stopFor(stoppedLong)},
	{label: "split", text: "goes on without its leader while that is separated from the other members", fault: "the leader is separated from the others for a minute", do: separate(false)},
	{label: "split_one_way", text: "goes on without its leader while the other members do not hear that", fault: "the leader is not heard by the others for a minute", do: separate(true)},
	{label: "hosts_power_cycled", text: "comes back with all that it acknowledged when all host nodes lost their power at once", fault: "all host nodes lose their power at once", do: cyclePower},
	{label: "clock_ahead", text: "goes on while the clock of its leader is ahead", fault: "the clock of the leader is 10 min ahead for a minute", do: shiftClock(wrong)},
	{label: "clock_behind", text: "goes on while the clock of its leader is behind", fault: "the clock of the leader is 10 min behind for a minute", do: shiftClock(-wrong)},
	{label: "disk_slow", text: "goes on while the disk of its leader is slow", fault: "each sync and write of the leader's disk takes 0.5 s longer for a minute", disks: 1, do: slowDisk},
	{label: "disk_fails", text: "takes its leader back when the disk of that no longer fails", fault: "the leader's disk fails for a while", disks: 1, do: failDisk},
	{label: "disk_full", text: "takes a member back when its disk has room again", fault: "the disk of a member is full for a while", disks: 1, follower: true, do: fillDisk},
	{label: "unsynced_lost", text: "has all that it acknowledged when all hosts lost their power, and disks what was not synced", fault: "all host nodes lose their power, and what was not synced", disks: 3, do: cyclePower},
}

// repairedFaults are those of a soak, too. The pod of the member is another one then, and the agent looks at the data before etcd starts.
var repairedFaults = []etcdFault{
	{label: "wiped", text: "replaces a member whose volume was wiped while it was stopped", fault: "a volume is wiped", replaced: true, do: whileAway("wipe the volume", damage.Wipe)},
	{label: "log_flipped", text: "replaces a member whose log has other bytes", fault: "bytes flipped in the log", replaced: true, do: whileAway("flip bytes in the log", damage.Log)},
	{label: "database_flipped", text: "replaces a member whose database has other bytes", fault: "bytes flipped in the database", replaced: true, do: whileAway("flip bytes in the database", damage.Database)},
}

var _ = Describe("The etcd of a tenant, disturbed,", Label(full, etcdFaults, transient), func() {
	for _, fault := range passingFaults {
		labels := Label(fault.label)
		if fault.disks > 0 {
			labels = append(labels, onDisks)
		}
		It(fault.text, labels, func(ctx SpecContext) {
			s := newStruck(ctx, strings.ReplaceAll(fault.label, "_", "-"), fault.fault, nil)
			s.cover(ctx, s.dataMembers(ctx)[:fault.disks]...)
			s.start(ctx)
			s.pass(ctx, fault)
		}, SpecTimeout(faulty))
	}
})

// pass has a fault come and pass, and sees to it that all is well then.
func (s *struck) pass(ctx context.Context, fault etcdFault) {
	GinkgoHelper()
	member := s.target(ctx, fault)
	fault.do(ctx, s, member)
	if fault.replaced {
		s.expectRecovered(ctx, member)
	} else {
		s.expectRecovered(ctx)
	}
	s.expectWhole(ctx)
}

// target is the member that a fault hits.
func (s *struck) target(ctx context.Context, fault etcdFault) string {
	GinkgoHelper()
	covered := slices.Sorted(maps.Keys(s.disks))
	switch {
	case fault.replaced:
		return s.follower(ctx, covered...) // Its volume goes.
	case fault.disks == 0 && fault.follower:
		return s.follower(ctx)
	case fault.disks == 0:
		return s.leader(ctx)
	case fault.follower == (s.leader(ctx) == covered[0]):
		s.lead(ctx, map[bool]string{true: s.follower(ctx), false: covered[0]}[fault.follower])
	}
	return covered[0]
}

// whileAway damages the data directory of a member while that is stopped.
func whileAway(did string, how func(directory string) error) func(context.Context, *struck, string) {
	return func(ctx context.Context, s *struck, member string) {
		GinkgoHelper()
		s.strike(did+" of "+member+" while it is stopped", func() {
			s.whileStopped(ctx, member, func(directory string) { Expect(how(directory)).To(Succeed()) })
		}, member)
	}
}

func killMember(ctx context.Context, s *struck, member string) {
	GinkgoHelper()
	s.strike("kill -9 "+member, func() {
		s.untilEnded(ctx, member, 1, func() { s.signal(ctx, member, syscall.SIGKILL) })
	}, member)
}

// untilEnded does something to a member that ends it, and waits until kubelet has started it so many times again.
func (s *struck) untilEnded(ctx context.Context, member string, times int32, do func()) {
	GinkgoHelper()
	_, before := s.container(ctx, member)
	do()
	Eventually(ctx, func(g Gomega) {
		_, now := s.container(ctx, member)
		g.Expect(now.RestartCount).To(BeNumerically(">=", before.RestartCount+times))
	}).WithTimeout(creation).Should(Succeed(), "etcd of %s starts again", member)
}

// while lets time pass in which a fault goes on, and says how many writes are acknowledged.
func (s *struck) while(ctx context.Context, duration time.Duration) {
	GinkgoHelper()
	passTime(ctx, duration, func() string { return fmt.Sprintf("%d writes were acknowledged", s.acknowledged()) })
}

// stopFor stops a member. Kubelet may end it meanwhile.
func stopFor(duration time.Duration) func(context.Context, *struck, string) {
	return func(ctx context.Context, s *struck, member string) {
		GinkgoHelper()
		var hit []string
		if duration == stoppedLong {
			hit = append(hit, member)
		}
		s.strike("kill -STOP "+member+", which leads, and -CONT after "+duration.String(), func() {
			id, _ := s.container(ctx, member)
			proceed := func() error { _, err := processes.Signal(id, syscall.SIGCONT); return err }
			DeferCleanup(proceed)
			s.signal(ctx, member, syscall.SIGSTOP)
			s.while(ctx, duration)
			Expect(proceed()).To(Succeed())
		}, hit...)
	}
}

// separate separates the host of a member from those of the others, at the port of members alone.
func separate(oneWay bool) func(context.Context, *struck, string) {
	return func(ctx context.Context, s *struck, member string) {
		GinkgoHelper()
		nodes, own := env.hostNodes(ctx), s.pods[member].Node
		separation := host.Separation{Port: uint16(etcd.Data.PortsOf(s.ports(ctx)).Peer), OneWay: oneWay} //nolint:gosec // A port.
		for name := range nodes {
			if node := nodes[name]; name != own {
				separation.Hosts = append(separation.Hosts, netip.MustParseAddr(internalIP(&node)))
			}
		}
		did := "drop what members on other hosts and " + member + ", which leads, say to each other"
		if oneWay {
			did = "drop what " + member + ", which leads, says to members on other hosts"
		}
		s.strike(did, func() {
			h := labHost(own)
			DeferCleanup(h.Rejoin)
			Expect(h.Separate(separation)).To(Succeed())
			s.whileLeaderless(ctx, disturbance, member)
			Expect(h.Rejoin()).To(Succeed())
		})
	}
}

// cyclePower takes the power of all host nodes, and gives it back. Disks that members are on lose what was not synced.
func cyclePower(ctx context.Context, s *struck, _ string) {
	GinkgoHelper()
	var hosts []*host.Host
	for name := range env.hostNodes(ctx) {
		hosts = append(hosts, labHost(name))
	}
	did := "power off all host nodes, and on again"
	if len(s.disks) > 0 {
		did += fmt.Sprintf("; %d members lose what was not synced", len(s.disks))
	}
	s.unwatched = true
	powerOn := func(ctx context.Context) {
		GinkgoHelper()
		each(hosts, func(h *host.Host) error { return env.lab.PowerOn(ctx, h.Name) })
	}
	DeferCleanup(func(ctx SpecContext) { powerOn(ctx) }, NodeTimeout(join))
	s.strike(did, func() {
		for member, d := range s.disks {
			Expect(d.LosePower()).To(Succeed())
			delete(s.disks, member)
		}
		each(hosts, func(h *host.Host) error { return env.lab.PowerOff(ctx, h.Name) })
		powerOn(ctx)
	}, slices.Collect(maps.Keys(s.pods))...)
}

// shiftClock has the clock of a member be wrong.
func shiftClock(ahead time.Duration) func(context.Context, *struck, string) {
	return func(ctx context.Context, s *struck, member string) {
		GinkgoHelper()
		s.strike("have the clock of "+member+", which leads, be "+ahead.String()+" ahead", func() {
			id, _ := s.container(ctx, member)
			found, err := processes.Of([]string{id})
			Expect(err).NotTo(HaveOccurred())
			Expect(found[id]).To(HaveLen(1), "processes of %s", member)
			back, err := clock.Shift(ctx, found[id][0], ahead)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) { Expect(back(ctx)).To(Succeed()) })
			s.whileAhead(ctx, disturbance, member, ahead)
			Expect(back(ctx)).To(Succeed())
		})
	}
}

func slowDisk(ctx context.Context, s *struck, member string) {
	GinkgoHelper()
	s.strike("have each write and each sync of the disk of "+member+" take "+slowness.String()+" longer", func() {
		s.disks[member].Slow(slowness)
		s.whileSlow(ctx, disturbance, member, slowness)
		s.disks[member].Mend()
	})
}

func failDisk(ctx context.Context, s *struck, member string) {
	GinkgoHelper()
	s.strike("fail every write and every sync on the disk of "+member+" with EIO until it ended", func() {
		s.untilEnded(ctx, member, 1, s.disks[member].Fail)
		s.disks[member].Mend()
	}, member)
}

// fillDisk has a member start on a full disk, too, before it has room again.
func fillDisk(ctx context.Context, s *struck, member string) {
	GinkgoHelper()
	s.strike("leave no room on the disk of "+member+" until it ended twice", func() {
		s.untilEnded(ctx, member, 2, s.disks[member].Fill)
		s.disks[member].Mend()
	}, member)
}

// dataMembers are the names of the members of the data's etcd.
func (s *struck) dataMembers(ctx context.Context) (members []string) {
	GinkgoHelper()
	for name, pod := range s.snapshot(ctx) {
		if pod.Component == names.EtcdData {
			members = append(members, name)
		}
	}
	slices.Sort(members)
	return members
}
