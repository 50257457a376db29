//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/registers"
)

// beginHistory begins to write down what clients of a tenant see. Journals and registers are written by the API servers of all host nodes.
// Registers have to end before an etcd with other data takes over.
func (b *backedUp) beginHistory(ctx context.Context) *struck {
	GinkgoHelper()
	s := &struck{tenant: b.tenant, unwatched: true} // API servers that start again end watches.
	DeferCleanup(func() { s.endHistory() })
	s.write(ctx)
	return s
}

// nextHistory begins another history.
func (s *struck) nextHistory(ctx context.Context) {
	GinkgoHelper()
	s.round++
	s.journals, s.recorder, s.reader = nil, nil, nil
	s.write(ctx)
}

// endHistory ends journals and registers. What they wrote is yet to be compared.
func (s *struck) endHistory() {
	var ending sync.WaitGroup
	for _, j := range s.journals {
		ending.Go(j.Stop)
	}
	if s.recorder != nil {
		ending.Go(func() { s.recorder.Stop() })
	}
	ending.Wait()
}

// missing are the acknowledged writes of a history that are not there, key by key. What clients saw must be linearizable.
func (s *struck) missing(ctx context.Context, named string) []string {
	GinkgoHelper()
	missing, _, err := s.compare(ctx)
	Expect(err).NotTo(HaveOccurred())
	figure(named, len(missing), fmt.Sprintf("writes of %d that were compared", s.row.Compared))
	Expect(s.row.Linearizable).To(Equal(registers.Yes), "what clients saw of registers is linearizable")
	return missing
}

// newest are the numbers of the newest acknowledged writes, of one journal after the other.
func (s *struck) newest() (numbers []int) {
	for _, j := range s.journals {
		numbers = append(numbers, j.Newest())
	}
	return numbers
}

// expectSurvived expects the acknowledged writes of a history to be there after a restore from a survivor. The survivor may lack what the leader and
// the other member acknowledged in the second before they were lost. newest are the writes just before that: an older one that is missing is a loss.
func (s *struck) expectSurvived(ctx context.Context, named string, newest []int) {
	GinkgoHelper()
	missing := s.missing(ctx, named)
	Expect(len(missing)).To(BeNumerically("<=", faultRate*len(s.journals)), "acknowledged writes that are lost are those of a second at most: %q", missing)
	for i, j := range s.journals {
		Expect(j.Before(newest[i]-faultRate, missing)).To(BeEmpty(), "lost writes that are older than a second, of which the newest was %d", newest[i])
	}
}

// expectFirstKept expects the first writes of a history that began before a snapshot to be there after its restore.
func (s *struck) expectFirstKept(ctx context.Context, named string) {
	GinkgoHelper()
	missing, first := s.missing(ctx, named), 0
	for _, j := range s.journals {
		if name, _, acknowledged := j.First(); acknowledged {
			first++
			Expect(missing).NotTo(ContainElement(HavePrefix(name+" ")), "acknowledged writes that are lost")
		}
	}
	Expect(first).NotTo(BeZero(), "journals whose first write was acknowledged")
}

// expectGivenUp expects the acknowledged writes of a history that began after a snapshot to be all given up by its restore.
func (s *struck) expectGivenUp(ctx context.Context, named string) {
	GinkgoHelper()
	Expect(s.missing(ctx, named)).To(HaveLen(s.row.Compared), "acknowledged writes that are given up")
}

// expectNothingMissing expects the acknowledged writes of a history to be there.
func (s *struck) expectNothingMissing(ctx context.Context, named string) {
	GinkgoHelper()
	Expect(s.missing(ctx, named)).To(BeEmpty(), "acknowledged writes that are lost")
}

// expectNextHistory begins another history after a restore, and expects that nothing of it is lost.
func (s *struck) expectNextHistory(ctx context.Context) {
	GinkgoHelper()
	s.nextHistory(ctx)
	s.expectGoingOn(ctx)
	s.endHistory()
	s.expectNothingMissing(ctx, "restored_lost_writes")
}

// leaderFirst are the members of the data etcd, the one that leads before the others.
func (b *backedUp) leaderFirst(ctx context.Context) []string {
	GinkgoHelper()
	name, members := leaderOf(ctx, Default, b.etcd(ctx, names.EtcdData)), b.members(ctx, names.EtcdData)
	leader := slices.Index(members, name)
	Expect(leader).To(BeNumerically(">=", 0), "the leader %s is none of %v", name, members)
	members[0], members[leader] = members[leader], members[0]
	return members
}
