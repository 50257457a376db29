//go:build e2e

package e2e

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"filippo.io/age"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
)

// sharedClaim is the name of a claim with snapshots.
const sharedClaim = "snapshots"

// onClaim is a tenant whose snapshots are on a claim with ReadWriteMany.
type onClaim struct {
	*backedUp
	volume *corev1.PersistentVolume
	// folder is where this machine has the volume.
	folder string
}

// newOnClaim is a tenant with one member: the lab has no file server, and so the volume is a directory of one host node, where that member runs.
func newOnClaim(ctx context.Context, name string) *onClaim {
	GinkgoHelper()
	requireLab()
	c := &onClaim{backedUp: &backedUp{tenant: newTenant(name, "v1.36.3", single())}}
	var err error
	c.person, err = age.GenerateX25519Identity()
	Expect(err).NotTo(HaveOccurred())
	node := slices.Sorted(maps.Keys(env.hostNodes(ctx)))[0]
	path := filepath.Join(volumesDirectory, c.Namespace+"-"+sharedClaim)
	c.folder = labHost(node).DiskPath(path)
	c.volume = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: filepath.Base(path)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, ClaimRef: &corev1.ObjectReference{Namespace: c.Namespace, Name: sharedClaim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	c.prepare = c.makeClaim
	c.edit = func(controlPlane *controlplanev1.KOKControlPlane) {
		controlPlane.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{
			Every: &metav1.Duration{Duration: backupEvery}, Keep: controlplanev1.EtcdSnapshotRetention{Last: ptr.To[int32](10)},
			Recipients: []string{c.person.Recipient().String()}, Store: controlplanev1.EtcdSnapshotStore{ClaimName: sharedClaim},
		}
	}
	DeferCleanup(func(ctx SpecContext) {
		if !settings.keep {
			c.removeVolume(ctx)
		}
	})
	return c
}

// makeClaim makes the claim, and its volume without anything from before.
func (c *onClaim) makeClaim(ctx context.Context) {
	GinkgoHelper()
	c.removeVolume(ctx)
	Expect(os.Mkdir(c.folder, 0o777)).To(Succeed())
	Expect(os.Chmod(c.folder, 0o777)).To(Succeed()) // As the lab's other volumes: any user may run in the pod.
	Expect(env.client.Create(ctx, c.volume.DeepCopy())).To(Succeed())
	Expect(env.client.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: sharedClaim},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(""), VolumeName: c.volume.Name, AccessModes: c.volume.Spec.AccessModes,
			Resources: corev1.VolumeResourceRequirements{Requests: c.volume.Spec.Capacity},
		},
	})).To(Succeed())
}

// removeVolume removes the volume, whose claim is gone, with all that is on it.
func (c *onClaim) removeVolume(ctx context.Context) {
	GinkgoHelper()
	volume := c.volume.DeepCopy()
	Expect(client.IgnoreNotFound(env.client.Delete(ctx, volume))).To(Succeed())
	Eventually(ctx, func() error { return env.client.Get(ctx, client.ObjectKeyFromObject(c.volume), volume) }).WithTimeout(creation).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "volume %s is not deleted", c.volume.Name)
	Expect(os.RemoveAll(c.folder)).To(Succeed())
}

// verified are the slots of snapshots on the volume that were verified.
func (c *onClaim) verified() (slots []string) {
	GinkgoHelper()
	files, err := os.ReadDir(c.folder)
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		if slot, kind := archive.ParseName(file.Name()); kind == archive.VerificationFile {
			slots = append(slots, archive.SlotName(slot))
		}
	}
	return slots
}

var _ = Describe("The etcd of a tenant whose snapshots are on a claim", Label(full, etcdBackups, onAClaim), func() {
	It("takes them there, verifies them, and is restored in place from there", func(ctx SpecContext) {
		c := newOnClaim(ctx, "on-claim")
		c.createToLose(ctx)
		taken, has := c.takeAll(ctx)
		Expect(c.verified()).To(ContainElement(taken.Status.Slot), "verified snapshots on the volume")
		c.restoreInPlace(ctx, "recovery_seconds_claim", "etcd", "restore-in-place", c.Name, taken.Name, "--namespace", c.Namespace)
		c.expectAsIn(ctx, taken, has, "claim_objects_different")
		c.expectFilled(ctx)
		c.expectBackedUp(ctx, creation+backupEvery)
	}, SpecTimeout(5*creation+restoring+2*backupEvery))
})
