//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clientv3 "go.etcd.io/etcd/client/v3"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/etcdfaults"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// onlyFormer is an object that the former etcd has, and the new one never had.
const onlyFormer = "only-former"

// returned is how long a spec looks at a member whose host node was cut off and is reached again.
const returned = 2 * time.Minute

var _ = Describe("Members with data from before a restore in place", Label(full, etcdBackups, formerData), func() {
	It("put their former data aside when they find it again", Label("former_back"), func(ctx SpecContext) {
		b, former, taken, has := newWithFormer(ctx, "former-back")
		b.restoreInPlace(ctx, "recovery_seconds_former_back", "etcd", "restore-in-place", b.Name, taken.Name, "--namespace", b.Namespace)
		b.expectAsIn(ctx, taken, has, "former_back_objects_different")
		seen := b.lookForFormer(ctx, former, env.hostNodes(ctx))

		members := b.members(ctx, names.EtcdData)
		s := &struck{
			tenant: b.tenant, row: etcdfaults.Row{Fault: "a member has the data of a former cluster"}, said: map[string]string{}, disks: map[string]*disk.Disk{},
		}
		s.start(ctx)
		for _, member := range members {
			formerDirectory(s.dataDirectory(ctx, member), former)
		}
		s.strike("put the former data of "+members[0]+" back while it is stopped", func() {
			s.whileStopped(ctx, members[0], func(directory string) { putBack(directory, former) })
		}, members[0])
		s.expectRecovered(ctx, members[0])
		s.expectWhole(ctx)
		Expect(seen()).To(BeEmpty(), "who had what the former etcd had")
		b.expectOneCluster(ctx, former)
	}, SpecTimeout(4*creation+restoring+recovering+2*backupEvery))

	It("put them aside when their host node was off during the restore", Label("off_during_restore"), func(ctx SpecContext) {
		b, former, taken, has, node := newWithFormerToLose(ctx, "off-during-restore")
		away := b.memberOn(ctx, node)
		losePower(ctx, node)
		expectSilent(ctx, node)
		began := b.restoreWithout(ctx, away, taken, has, "host_off_objects_different")
		// A pod that cannot stop keeps the name of this member until its host node is back.
		b.expectOneCluster(ctx, former, away)
		figure("recovery_seconds_host_off", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s until all other members vote")
		seen := b.lookForFormer(ctx, former, env.hostNodes(ctx))

		By("the host node comes back")
		Expect(env.lab.PowerOn(ctx, node)).To(Succeed())
		b.expectAllBack(ctx)
		b.expectOneCluster(ctx, former)
		Expect(seen()).To(BeEmpty(), "who had what the former etcd had")
	}, SpecTimeout(7*creation+4*restoring+join+2*backupEvery))

	It("make no second etcd with them when their host node was cut off during the restore, and its Node was deleted", Label("cut_off_deleted"), func(ctx SpecContext) {
		b, former, taken, has, node := newWithFormerToLose(ctx, "cut-off-deleted")
		away, nodes, h := b.memberOn(ctx, node), env.hostNodes(ctx), labHost(node)
		member := (&struck{tenant: b.tenant, pods: b.snapshot(ctx)}).near(ctx, away)
		_, err := member.Get(ctx, filler)
		Expect(err).NotTo(HaveOccurred(), "a read from %s before it is cut off", away)
		DeferCleanup(h.Rejoin)
		Expect(h.Separate(host.Separation{Hosts: othersThan(ctx, node)})).To(Succeed())
		expectSilent(ctx, node)
		expectUseless(ctx, member)
		Expect(env.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})).To(Succeed())
		began := b.restoreWithout(ctx, away, taken, has, "cut_off_objects_different")
		b.expectAllBack(ctx)
		figure("recovery_seconds_cut_off", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s until all members are back, one of them on another host node")
		b.expectOneCluster(ctx, former)
		Expect(b.snapshot(ctx)).NotTo(ContainElement(HaveField("Node", node)))
		clusters := b.clusterID(ctx)
		expectUseless(ctx, member)

		By("the host node is reached again")
		s := b.beginHistory(ctx)
		seen := b.lookForFormer(ctx, former, nodes)
		Expect(h.Rejoin()).To(Succeed())
		_, err = h.Exec(ctx, nil, "systemctl", "restart", "kubelet.service") // It makes its Node anew.
		Expect(err).NotTo(HaveOccurred())
		passTime(ctx, returned, func() string {
			expectUseless(ctx, member)
			return "the former member takes no write, and answers no read"
		})
		Expect(seen()).To(BeEmpty(), "who had what the former etcd had")
		b.expectAllBack(ctx)
		b.expectOneCluster(ctx, former)
		Expect(b.clusterID(ctx)).To(Equal(clusters), "the ID of the data etcd")
		s.endHistory()
		s.expectNothingMissing(ctx, "cut_off_lost_writes")
	}, SpecTimeout(7*creation+5*restoring+join+returned+2*backupEvery))
})

// newWithFormerToLose is newWithFormer on three host nodes, one of which the lab can lose, with a spare one beside them. It returns that one, too.
func newWithFormerToLose(ctx context.Context, name string) (b *backedUp, former string, taken *controlplanev1.KOKEtcdSnapshot, has map[string][]byte, node string) {
	GinkgoHelper()
	node = withNodeToLose(ctx, func() { b, former, taken, has = newWithFormer(ctx, name) })
	b.expectHealthy(ctx)
	return b, former, taken, has, node
}

// memberOn is the member of the data etcd on a host node.
func (b *backedUp) memberOn(ctx context.Context, node string) (member string) {
	GinkgoHelper()
	for name, pod := range b.snapshot(ctx) {
		if pod.Component == names.EtcdData && pod.Node == node {
			member = name
		}
	}
	Expect(member).NotTo(BeEmpty(), "member of the data etcd on %s", node)
	return member
}

// restoreWithout asks for a restore in place as a person does who gives a member up, for its host node is not heard from. It returns when that was,
// once the API is available and has what the snapshot has. The command itself would wait until nothing is to be recovered, and the host node is away.
func (b *backedUp) restoreWithout(ctx context.Context, away string, taken *controlplanev1.KOKEtcdSnapshot, has map[string][]byte, named string) (began time.Time) {
	GinkgoHelper()
	began = time.Now()
	Expect(kok(ctx, "etcd", "restore-in-place", b.Name, taken.Name, "--namespace", b.Namespace, "--given-up", away, "--yes", "--timeout", "0")).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		controlPlane := &controlplanev1.KOKControlPlane{}
		g.Expect(env.client.Get(ctx, b.ObjectKey, controlPlane)).To(Succeed())
		restored := slices.ContainsFunc(controlPlane.Status.Etcd, func(s controlplanev1.EtcdClusterStatus) bool { return s.Name == "data" && !s.RestoredAt.IsZero() })
		g.Expect(restored).To(BeTrue(), "%s; %s", conditions.GetMessage(controlPlane, conditionsv1.ReconciledCondition), conditions.GetMessage(controlPlane, conditionsv1.EtcdRecoveringCondition))
		g.Expect(conditions.IsTrue(controlPlane, conditionsv1.AvailableCondition)).To(BeTrue(), conditions.GetMessage(controlPlane, conditionsv1.AvailableCondition))
	}).WithTimeout(restoring).Should(Succeed(), "%s is restored without %s", b.ObjectKey, away)
	// API servers compact the first revision after some minutes.
	b.expectAsIn(ctx, taken, has, named)
	return began
}

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

// formerDirectory is where the data of a former etcd are, beside a data directory.
func formerDirectory(directory, cluster string) string {
	GinkgoHelper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(directory), "former", rebuild.Padded(cluster)+"-*", "member"))
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(HaveLen(1), "former data beside %s", directory)
	return found[0]
}

// putBack has a data directory be as it was before it was put aside. The member must be stopped.
func putBack(directory, cluster string) {
	GinkgoHelper()
	kept, member := formerDirectory(directory, cluster), filepath.Join(directory, "member")
	Expect(os.RemoveAll(member)).To(Succeed())
	Expect(os.Rename(kept, member)).To(Succeed())
}

// lookForFormer looks again and again whether an API server on one of these host nodes has what only the former etcd has, or whether a member is
// of that cluster. The function that it returns ends that, and says who did.
func (b *backedUp) lookForFormer(ctx context.Context, cluster string, nodes map[string]corev1.Node) func() []string {
	GinkgoHelper()
	servers, port := map[string]kubernetes.Interface{}, b.ports(ctx).APIServer
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

// expectOneCluster waits until all members but those that are away vote in one cluster, which is not the former one, and have the same data.
func (b *backedUp) expectOneCluster(ctx context.Context, former string, away ...string) {
	GinkgoHelper()
	etcd := b.etcd(ctx, names.EtcdData)
	for _, member := range away {
		service := &corev1.Service{}
		get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: member}, service)
		all := len(etcd.Endpoints())
		etcd.SetEndpoints(slices.DeleteFunc(etcd.Endpoints(), func(endpoint string) bool {
			return strings.HasPrefix(endpoint, "https://"+net.JoinHostPort(service.Spec.ClusterIP, ""))
		})...)
		Expect(etcd.Endpoints()).To(HaveLen(all-1), "members without %s", member)
	}
	s := &struck{tenant: b.tenant, etcds: map[string]*clientv3.Client{names.EtcdData: etcd}}
	clusters := map[string]uint64{}
	Eventually(ctx, func() (err error) {
		clusters, err = s.voters(ctx)
		return err
	}).WithTimeout(restoring).Should(Succeed(), "members of %s vote", b.ObjectKey)
	Expect(fmt.Sprintf("%016x", clusters[names.EtcdData])).NotTo(Equal(rebuild.Padded(former)), "the ID of the data etcd")
	s.expectSameHashes(ctx)
}

// othersThan are the addresses of all other nodes of the host cluster, that of its API server among them.
func othersThan(ctx context.Context, node string) (others []netip.Addr) {
	GinkgoHelper()
	nodes := &corev1.NodeList{}
	listAll(ctx, nodes)
	for i := range nodes.Items {
		if other := &nodes.Items[i]; other.Name != node {
			others = append(others, netip.MustParseAddr(internalIP(other)))
		}
	}
	Expect(others).NotTo(BeEmpty())
	return others
}

// expectUseless fails if a member takes a write, or answers a read that has to be the newest.
func expectUseless(ctx context.Context, member *clientv3.Client) {
	GinkgoHelper()
	writing, written := context.WithTimeout(ctx, answerTime)
	defer written()
	_, err := member.Put(writing, filler, "of the former member")
	Expect(err).To(HaveOccurred(), "a write to the former member")
	reading, read := context.WithTimeout(ctx, answerTime)
	defer read()
	_, err = member.Get(reading, filler)
	Expect(err).To(HaveOccurred(), "a read from the former member")
}
