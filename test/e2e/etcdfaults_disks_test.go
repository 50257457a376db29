//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/disk"
)

// cover puts members on disks that can fail, one after the other: each is stopped for it, and follows again before the next is. Those
// that are on such a disk stay there.
func (s *struck) cover(ctx context.Context, members ...string) {
	GinkgoHelper()
	s.pods = s.snapshot(ctx)
	for _, member := range members {
		if s.disks[member] != nil {
			continue
		}
		h, volume := labHost(s.pods[member].Node), s.volume(ctx, member)
		env.log.Print("%s: put %s on a disk that can fail", s.Name, member)
		s.whileStopped(ctx, member, func(string) {
			d, err := disk.Cover(disk.Options{Directory: h.DiskPath(volume), At: volume, In: h.InMounts})
			Expect(err).NotTo(HaveOccurred())
			s.disks[member] = d
		})
		s.expectHealthy(ctx)
	}
}

// uncover takes all disks away that members are on.
func (s *struck) uncover() {
	GinkgoHelper()
	for member, d := range s.disks {
		Expect(d.Close()).To(Succeed(), "the disk of %s", member)
		delete(s.disks, member)
	}
}

// lead has a member of the data's etcd lead.
func (s *struck) lead(ctx context.Context, member string) {
	GinkgoHelper()
	data, wanted := s.etcds[names.EtcdData], s.before.Members[member]
	Eventually(ctx, func(g Gomega) {
		asking, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		for _, endpoint := range data.Endpoints() {
			status, err := data.Status(asking, endpoint)
			g.Expect(err).NotTo(HaveOccurred())
			if status.Header.MemberId != status.Leader || status.Leader == wanted {
				continue
			}
			leader, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Context: asking, Logger: zap.NewNop(), TLS: s.etcdTLS(ctx)})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = leader.MoveLeader(asking, wanted)
			_ = leader.Close()
			g.Expect(err).NotTo(HaveOccurred())
		}
		g.Expect(leaderOf(asking, g, data)).To(Equal(member), "the leader")
	}).WithTimeout(creation).Should(Succeed(), "%s leads", member)
}
