//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const (
	// everyMinute has members start anew soon, where they do so once a day else.
	everyMinute = "--etcd-defragmentation-interval=1m"
	// mebibytes is how much of the database is written, and deleted again.
	mebibytes = 400
)

var _ = Describe("The database of an etcd", Label(full, upgrades), func() {
	It("is written anew without free pages, member by member, and no request fails", Label("defragmented"), func(ctx SpecContext) {
		requireLab()
		t := newTenant("defragmented", "v1.36.3", nil)
		DeferCleanup(func(ctx SpecContext) {
			if !settings.keep {
				t.remove(ctx)
			}
		}, NodeTimeout(2*creation))
		t.create(ctx)
		data := t.etcd(ctx, names.EtcdData)
		freePages(ctx, data)

		journals := t.startJournals(ctx, "defragmented")
		setManagerArguments(ctx, "--leader-elect", "--leader-elect", everyMinute)
		DeferCleanup(func(ctx SpecContext) { setManagerArguments(ctx, everyMinute) })
		began := time.Now()
		Eventually(ctx, func(g Gomega) {
			for _, endpoint := range data.Endpoints() {
				status, err := data.Status(ctx, endpoint)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status.DbSize).To(BeNumerically("<", space.MuchFree), "database of %s", endpoint)
			}
		}).WithTimeout(upgrade).Should(Succeed(), "all databases are small")
		figure("defrag_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s for three members")
		t.expectHealthy(ctx)
		t.expectNothingLost(ctx, "defrag", journals)
	}, SpecTimeout(upgrade+5*creation))
})

// freePages writes values into an etcd, and deletes them and their versions.
func freePages(ctx context.Context, data *clientv3.Client) {
	GinkgoHelper()
	const prefix = "/filler/"
	value := strings.Repeat("x", 1<<20)
	for i := range mebibytes {
		_, err := data.Put(ctx, fmt.Sprintf("%s%03d", prefix, i), value)
		Expect(err).NotTo(HaveOccurred())
	}
	deleted, err := data.Delete(ctx, prefix, clientv3.WithPrefix())
	Expect(err).NotTo(HaveOccurred())
	_, err = data.Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical())
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(g Gomega) {
		for _, endpoint := range data.Endpoints() {
			status, err := data.Status(ctx, endpoint)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.DbSize-status.DbSizeInUse).To(BeNumerically(">", space.MuchFree), "free pages of %s", endpoint)
		}
	}).WithTimeout(creation).Should(Succeed(), "there are many free pages")
}
