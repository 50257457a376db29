//go:build e2e

package e2e

import (
	"context"
	"strings"

	"filippo.io/age"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// newPerMember is a tenant each member of whose etcd keeps snapshots on a volume of its own.
func newPerMember(name string) *backedUp {
	GinkgoHelper()
	requireLab()
	b := &backedUp{tenant: newTenant(name, "v1.36.3", nil)}
	var err error
	b.person, err = age.GenerateX25519Identity()
	Expect(err).NotTo(HaveOccurred())
	b.edit = func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{
			Every: &metav1.Duration{Duration: backupEvery}, Keep: controlplanev1.EtcdSnapshotRetention{Last: ptr.To[int32](10)},
			Recipients: []string{b.person.Recipient().String()},
			Store:      controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{Size: ptr.To(resource.MustParse("1Gi"))}},
		}
	}
	return b
}

// expectKept waits until all members have a snapshot on their volumes.
func (b *backedUp) expectKept(ctx context.Context, snapshot string) {
	GinkgoHelper()
	members := b.members(ctx, names.EtcdData)
	Eventually(ctx, func(g Gomega) {
		object := &controlplanev1.KOKEtcdSnapshot{}
		g.Expect(env.client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: snapshot}, object)).To(Succeed())
		g.Expect(object.Status.Members).To(Equal(members))
		g.Expect(conditions.IsTrue(object, conditionsv1.SnapshotVerifiedCondition)).To(BeTrue())
	}).WithTimeout(creation).Should(Succeed(), "members that have %s", snapshot)
}

// snapshotsVolume is the UID of the claim of a member's volume for snapshots.
func (b *backedUp) snapshotsVolume(ctx context.Context, g Gomega, member string) types.UID {
	claim := &corev1.PersistentVolumeClaim{}
	g.Expect(env.client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: etcdcomponent.SnapshotsClaim(member)}, claim)).To(Succeed())
	return claim.UID
}

var _ = Describe("The etcd of a tenant whose members keep snapshots on volumes of their own", Label(full, etcdBackups), func() {
	It("has every snapshot on every member, also on one that was replaced, and is restored in place when no member has its data", Label("per_member"), func(ctx SpecContext) {
		b := newPerMember("per-member")
		b.createToLose(ctx)
		Expect(conditions.GetMessage(b.controlPlane(ctx), conditionsv1.EtcdBackedUpCondition)).To(ContainSubstring("on the host nodes of the data"))
		taken := b.take(ctx)
		before := contents(ctx, b.etcd(ctx, names.EtcdData), taken.Status.Revision)
		b.expectKept(ctx, taken.Name)

		By("a member loses its data, and is replaced with blank volumes")
		replaced := b.members(ctx, names.EtcdData)[1]
		former := b.snapshotsVolume(ctx, Default, replaced)
		b.wipe(ctx, replaced)
		Eventually(ctx, func(g Gomega) {
			g.Expect(b.snapshotsVolume(ctx, g, replaced)).NotTo(Equal(former))
		}).WithTimeout(recovering).Should(Succeed(), "the volume for snapshots of %s is another one", replaced)
		b.expectHealthy(ctx)
		b.expectKept(ctx, taken.Name)

		By("all members lose their data")
		s := b.beginHistory(ctx)
		b.wipe(ctx, b.members(ctx, names.EtcdData)...)
		command := b.toldCommand(ctx, " SNAPSHOT")
		s.endHistory()
		b.restoreInPlace(ctx, "recovery_seconds_per_member", strings.Fields(strings.ReplaceAll(command, "SNAPSHOT", taken.Name))...)
		etcd := b.etcd(ctx, names.EtcdData)
		different := differences(before, contents(ctx, etcd, firstRevision(ctx, etcd, taken.Status.Revision)))
		Expect(different).To(BeEmpty(), "keys that are not as they were in the snapshot, of %d", len(before))
		s.expectGivenUp(ctx, "recovery_point_writes_per_member")
		s.expectNextHistory(ctx)
		b.expectKept(ctx, taken.Name)
		b.expectBackedUp(ctx, creation+backupEvery)
	}, SpecTimeout(6*creation+2*recovering+restoring+3*backupEvery))
})
