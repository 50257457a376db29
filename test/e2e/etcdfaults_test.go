//go:build e2e

package e2e

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/damage"
)

const (
	// recovering bounds what a fault takes until all is well again. A member that does not start with its data is given five
	// starts before it is replaced, and kubelet leaves more and more time between them.
	recovering = 20 * time.Minute
	// faulty bounds a spec with one fault.
	faulty = recovering + 5*creation + join
	// serviced is how long a host node may be cordoned before its members are replaced elsewhere.
	serviced = 10 * time.Minute
	// looks are how often the manager has to have looked before one believes that it does nothing.
	looks = 3
)

// Each has a tenant of its own: a member that was replaced a moment ago is not replaced again.
var _ = Describe("The etcd of a tenant", Label(full, etcdFaults), func() {
	It("leaves a host node that is only silent alone, and gets members elsewhere when that is gone for good", Label("host_gone"), func(ctx SpecContext) {
		s := tenantWithSpare(ctx, "gone", "a host node is gone for good")
		hit := s.on(s.node)
		s.strike("power off "+s.node+" with "+strings.Join(hit, " and ")+"; delete its Node when it had been silent for a while", func() {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(env.client.Delete(ctx, node))).To(Succeed()) })
			Expect(env.lab.PowerOff(ctx, s.node)).To(Succeed())
			expectSilent(ctx, s.node)
			s.expectLeftAlone(ctx)
			s.mayRecover()
			Expect(env.client.Delete(ctx, node)).To(Succeed())
		}, hit...)
		s.expectRecovered(ctx, hit...)
		s.expectWhole(ctx)
	}, SpecTimeout(faulty+2*creation))

	for _, fault := range repairedFaults {
		It(fault.text, Label(prepared, fault.label), func(ctx SpecContext) {
			s := tenantToStrike(ctx, strings.ReplaceAll(fault.label, "_", "-"), fault.fault)
			s.pass(ctx, fault)
		}, SpecTimeout(faulty))
	}

	// The pod stays, and the agent looked before the wipe. The operator makes the pod anew, so that the agent looks again.
	It("replaces a member whose volume was wiped under it", Label(prepared, slow, "wiped_running"), func(ctx SpecContext) {
		s := tenantToStrike(ctx, "wiped-running", "a volume is wiped under a member")
		member := s.follower(ctx)
		s.strike("wipe the volume of "+member+" under it, and kill it", func() {
			s.signal(ctx, member, syscall.SIGSTOP)
			Expect(damage.Wipe(s.dataDirectory(ctx, member))).To(Succeed())
			s.signal(ctx, member, syscall.SIGKILL)
		}, member)
		s.expectRecovered(ctx, member)
		s.expectWhole(ctx)
	}, SpecTimeout(faulty))

	It("replaces a member in whose database a value changed", Label(prepared, "value_changed"), func(ctx SpecContext) {
		s := tenantToStrike(ctx, "value-changed", "a value changed in the database")
		member := s.follower(ctx)
		key, value := s.written(ctx)
		s.strike("change the value of "+key+" in the database of "+member+" while it is stopped", func() {
			s.whileStopped(ctx, member, func(directory string) {
				Expect(damage.Value(directory, key, value, another(value))).To(Succeed())
			})
		}, member)
		s.expectRecovered(ctx, member)
		s.expectWhole(ctx)
	}, SpecTimeout(faulty))

	It("replaces the leader, whose volume claim was deleted together with its pod", Label("claim_deleted"), func(ctx SpecContext) {
		s := tenantToStrike(ctx, "claim-deleted", "a volume claim is deleted")
		member := s.leader(ctx)
		claim := &corev1.PersistentVolumeClaim{}
		get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: etcd.Claim(member)}, claim)
		s.strike("delete the volume claim of "+member+", which leads, and kill its pod", func() {
			Expect(env.client.Delete(ctx, claim)).To(Succeed())
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: member}}
			Expect(env.client.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)})).To(Succeed())
		}, member)
		s.expectRecovered(ctx, member)
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		Eventually(ctx, func() error { return env.client.Get(ctx, client.ObjectKeyFromObject(volume), volume) }).WithTimeout(creation).
			Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "volume %s is gone", volume.Name)
		s.expectWhole(ctx)
	}, SpecTimeout(faulty))

	It("says by which command a stranger goes that became a member, and is well when a person ran that", Label("stranger"), func(ctx SpecContext) {
		s := tenantToStrike(ctx, "stranger", "a stranger becomes a member")
		members := s.dataMembers(ctx)
		s.strike("add a learner that nobody runs, and run the command that a condition has", func() {
			s.addStranger(ctx, members[0])
			runAsPerson(ctx, s.toldToRun(ctx, conditionsv1.ScalingDownCondition, strangersURL))
		})
		s.expectRecovered(ctx)
		s.expectMembers(ctx, len(members))
		s.expectWhole(ctx)
	}, SpecTimeout(faulty))

	It("leaves a host node that is drained, but not before it was cordoned for ten minutes", Label(slow, "drained"), func(ctx SpecContext) {
		s := tenantWithSpare(ctx, "drained", "a host node is drained and cordoned")
		// API servers are a DaemonSet's, whose pods a drain leaves.
		s.stay = []string{names.KubeAPIServer}
		hit := s.on(s.node)
		s.strike("cordon and drain "+s.node+" with "+strings.Join(hit, " and "), func() {
			cordoned := time.Now()
			cordon(ctx, s.node)
			Expect(waitReadyToDrain(ctx, s.node)).To(Succeed())
			Expect(env.run(ctx, env.kubectl, "drain", s.node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout="+draining.String())).To(Succeed())
			// Clocks and looks of the manager are a little apart from those of this program.
			const before = 15 * time.Second
			passTime(ctx, time.Until(cordoned.Add(serviced-before)), func() string {
				now, err := s.identity(ctx)
				if err != nil {
					return err.Error()
				}
				Expect(now).To(Equal(s.before), "who the members are before %s was cordoned for %s", s.node, serviced)
				return "nobody is replaced"
			})
			s.mayRecoverSince(cordoned.Add(serviced))
		}, hit...)
		s.expectRecovered(ctx, hit...)
		s.expectWhole(ctx)
	}, SpecTimeout(faulty+draining+serviced))

	It("gets room by itself when old versions of keys fill its quota", Label("filled"), func(ctx SpecContext) {
		s := newStruck(ctx, "filled", "its quota is filled", func(c *controlplanev1.KOKControlPlane) {
			c.Spec.Etcd.Data.QuotaBackendSize = ptr.To(resource.MustParse(smallQuota))
		})
		s.start(ctx)
		data := s.etcds[names.EtcdData]
		s.strike(fillingQuota, func() { fillQuota(ctx, data) })
		expectRoom(ctx, data)
		s.expectRecovered(ctx)
		s.expectWhole(ctx)
	}, SpecTimeout(faulty))

	It("gets room by itself when its quota is filled while the link to the cloud is cut", Label(slow, "filled_cut"), func(ctx SpecContext) {
		b := newBackedUp(ctx, "etcd-filled-cut")
		b.edit = func(c *controlplanev1.KOKControlPlane) {
			b.backUp(c)
			c.Spec.Etcd.Data.QuotaBackendSize = ptr.To(resource.MustParse(smallQuota))
		}
		s := strike(ctx, b.tenant, "the quota of an etcd, 128 MiB, is filled while the link to the cloud is cut")
		s.start(ctx)
		b.expectBackedUp(ctx, creation+backupEvery)
		near := s.near(ctx, s.follower(ctx))
		DeferCleanup(func(ctx SpecContext) { Expect(env.lab.Heal(ctx)).To(Succeed()) })
		s.strike("cut the link; "+fillingQuota, func() {
			Expect(env.lab.Cut(ctx)).To(Succeed())
			fillQuota(ctx, near)
			expectRoom(ctx, near)
			s.expectGoingOn(ctx)
			Expect(env.lab.Heal(ctx)).To(Succeed())
		})
		s.expectRecovered(ctx)
		s.expectWhole(ctx)
	}, SpecTimeout(faulty))

	It("replaces a member whose disk fails for good", Label(prepared, slow, "disk_fails_for_good"), func(ctx SpecContext) {
		s := newStruck(ctx, "disk-fails-for-good", "the disk of a member fails for good", nil)
		member := s.dataMembers(ctx)[0]
		s.cover(ctx, member)
		s.start(ctx)
		s.strike("fail every write and every sync on the disk of "+member+" with EIO", s.disks[member].Fail, member)
		s.expectRecovered(ctx, member)
		s.expectWhole(ctx)
	}, SpecTimeout(faulty))

	It("goes from 3.5 to 3.6 member by member, with its members and all that they hold", Label(prepared, "migrated"), func(ctx SpecContext) {
		s := tenantOfFormerEtcd(ctx, "migrated", "etcd goes from 3.5 to 3.6")
		s.expectVersions(ctx, formerVersions())
		members := slices.Sorted(maps.Keys(s.before.Members))
		s.strike("take spec.etcd.image, etcd "+formerVersions().Server+", back to the usual "+usualVersions().Server, func() {
			patch(ctx, s.controlPlane(ctx), `{"spec":{"etcd":{"image":null}}}`)
			s.expectRolled(ctx, members)
		}, members...)
		s.expectRecovered(ctx)
		s.expectVersions(ctx, usualVersions())
		s.expectFoundByPrepare(ctx)
		for _, component := range etcdComponents {
			s.expectSameHashesOf(ctx, component)
		}
		s.expectWhole(ctx)
	}, SpecTimeout(building+upgrade+faulty))
})

const (
	// smallQuota is filled soon, by the one key filler.
	smallQuota   = "128Mi"
	filler       = "/filler"
	fillingQuota = "write one key of 1 MiB until etcd has no space"
)

// fillQuota has an etcd reach its quota, and deletes what is not old of that.
func fillQuota(ctx context.Context, data *clientv3.Client) {
	GinkgoHelper()
	value := strings.Repeat("x", 1<<20)
	filling, cancel := context.WithTimeout(ctx, creation)
	defer cancel()
	var err error
	for err == nil {
		_, err = data.Put(filling, filler, value)
	}
	Expect(err).To(MatchError(ContainSubstring("database space exceeded")))
	Eventually(ctx, func() error { _, err := data.Delete(ctx, filler); return err }).WithTimeout(creation).Should(Succeed(), "delete what filled it")
}

// expectRoom waits until an etcd takes writes.
func expectRoom(ctx context.Context, data *clientv3.Client) {
	GinkgoHelper()
	Eventually(ctx, func() error { _, err := data.Put(ctx, filler, ""); return err }).WithTimeout(recovering).Should(Succeed(), "etcd takes writes again")
}

// near is a client of a member by the address of its host node. Addresses of Services lead through the cloud in the lab.
func (s *struck) near(ctx context.Context, member string) *clientv3.Client {
	GinkgoHelper()
	service := &corev1.Service{}
	get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: member}, service)
	node, port := env.hostNodes(ctx)[s.pods[member].Node], etcd.Data.PortsOf(s.ports(ctx)).Client
	made, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + address(service.Spec.ClusterIP, port)}, DialTimeout: answerTime, Context: ctx, Logger: zap.NewNop(), TLS: s.etcdTLS(ctx),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address(internalIP(&node), port))
		})},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(made.Close)
	return made
}

// expectSilent waits until the host cluster says that it does not hear from a node.
func expectSilent(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		node := &corev1.Node{}
		g.Expect(env.client.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		g.Expect(i).To(BeNumerically(">=", 0))
		g.Expect(node.Status.Conditions[i].Status).To(Equal(corev1.ConditionUnknown))
	}).WithTimeout(creation).Should(Succeed(), "node %s is not heard from", name)
}

// another text of the same length.
func another(text string) string {
	if first := text[0]; first != 'A' {
		return "A" + text[1:]
	}
	return "B" + text[1:]
}
