//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	clientv3 "go.etcd.io/etcd/client/v3"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/etcdfaults"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/disk"
)

// onlyFormer is an object that the former etcd has, and the new one never had.
const onlyFormer = "only-former"

var _ = Describe("Members with data from before a restore in place", Label(full, etcdBackups), func() {
	It("put their former data aside when they find it again", Label(slow, "former_back"), func(ctx SpecContext) {
		b, former, taken, has := newWithFormer(ctx, "former-back")
		b.restoreInPlace(ctx, "recovery_seconds_former_back", "etcd", "restore-in-place", b.Name, taken.Name, "--namespace", b.Namespace)
		b.expectAsIn(ctx, taken, has, "former_back_objects_different")
		seen := b.lookForFormer(ctx, former)

		members := b.members(ctx, names.EtcdData)
		s := &struck{
			tenant: b.tenant, row: etcdfaults.Row{Fault: "a member has the data of a former cluster"}, said: map[string]string{}, disks: map[string]*disk.Disk{},
		}
		s.start(ctx)
		s.strike("put the former data of "+members[0]+" back while it is stopped", func() {
			s.whileStopped(ctx, members[0], func(directory string) { putBack(directory, former) })
		}, members[0])
		s.expectRecovered(ctx, members[0])
		s.expectWhole(ctx)
		Expect(seen()).To(BeEmpty(), "who had what the former etcd had")
		b.expectOneCluster(ctx, former)
	}, SpecTimeout(4*creation+restoring+recovering+2*backupEvery))
})

// newWithFormer is a tenant with objects and a verified snapshot, and with one more object that the snapshot lacks. It also returns the ID of its
// data etcd, and the keys that the snapshot has.
func newWithFormer(ctx context.Context, name string) (b *backedUp, former string, taken *controlplanev1.KOKEtcdSnapshot, has map[string][]byte) {
	GinkgoHelper()
	b = newBackedUp(ctx, name)
	b.createToLose(ctx)
	taken, has = b.takeAll(ctx)
	_, err := b.api.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: onlyFormer}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	former = b.clusterID(ctx)
	Expect(former).NotTo(BeEmpty())
	return b, former, taken, has
}

// putBack has a data directory be as it was before it was put aside. The member must be stopped.
func putBack(directory, cluster string) {
	GinkgoHelper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(directory), "former", rebuild.Padded(cluster)+"-*", "member"))
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(HaveLen(1), "former data beside %s", directory)
	member := filepath.Join(directory, "member")
	Expect(os.RemoveAll(member)).To(Succeed())
	Expect(os.Rename(found[0], member)).To(Succeed())
}

// lookForFormer looks again and again whether an API server has what only the former etcd has, or whether a member is of that cluster. The
// function that it returns ends that, and says who did.
func (b *backedUp) lookForFormer(ctx context.Context, cluster string) func() []string {
	GinkgoHelper()
	servers, port := map[string]kubernetes.Interface{}, b.ports(ctx).APIServer
	nodes := env.hostNodes(ctx)
	for name := range nodes {
		node := nodes[name]
		server, err := kubernetes.NewForConfig(b.keptConfig(address(internalIP(&node), port), nil))
		Expect(err).NotTo(HaveOccurred())
		servers[name] = server
	}
	etcd, found := b.etcd(ctx, names.EtcdData), map[string]bool{}
	looking, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for looking.Err() == nil {
			for name, server := range servers {
				asking, answered := context.WithTimeout(looking, answerTime)
				if _, err := server.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(asking, onlyFormer, metav1.GetOptions{}); err == nil {
					found["the API server on "+name] = true
				}
				answered()
			}
			for _, endpoint := range etcd.Endpoints() {
				asking, answered := context.WithTimeout(looking, answerTime)
				if status, err := etcd.Status(asking, endpoint); err == nil && fmt.Sprintf("%016x", status.Header.ClusterId) == rebuild.Padded(cluster) {
					found["the member at "+endpoint] = true
				}
				answered()
			}
		}
	})
	stop := func() []string {
		cancel()
		done.Wait()
		return slices.Sorted(maps.Keys(found))
	}
	DeferCleanup(func() { stop() })
	return stop
}

// expectOneCluster waits until all members vote in one cluster, which is not the former one, and have the same data.
func (b *backedUp) expectOneCluster(ctx context.Context, former string) {
	GinkgoHelper()
	s := &struck{tenant: b.tenant, etcds: map[string]*clientv3.Client{names.EtcdData: b.etcd(ctx, names.EtcdData)}}
	Expect(fmt.Sprintf("%016x", s.expectVoters(ctx)[names.EtcdData])).NotTo(Equal(rebuild.Padded(former)), "the ID of the data etcd")
	s.expectSameHashes(ctx)
}
