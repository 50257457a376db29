//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clientv3 "go.etcd.io/etcd/client/v3"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
)

const (
	bucket = "tenants"
	// backupEvery is the least time between two snapshots.
	backupEvery = 5 * time.Minute
	// backupCut is how long the link is cut.
	backupCut = 30 * time.Minute
	// revisionsAhead is how far a restored etcd is ahead of its snapshot.
	revisionsAhead = 1_000_000_000
	// kept are the objects whose values are compared one by one.
	kept = 200
)

// backedUp is a tenant with backups in the lab's S3 server, for a person who has a key.
type backedUp struct {
	*tenant
	store  *lab.S3
	person *age.X25519Identity
	// identity is the file with the person's key.
	identity string
}

func newBackedUp(ctx context.Context, name string) *backedUp {
	GinkgoHelper()
	requireLab()
	b := &backedUp{tenant: newTenant(name, "v1.36.3", nil)}
	var err error
	b.store, err = env.lab.StartS3(ctx, func(step string) { env.log.Print("%s", step) }, bucket)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(b.store.Stop(ctx)).To(Succeed()) })
	b.person, err = age.GenerateX25519Identity()
	Expect(err).NotTo(HaveOccurred())
	b.identity = filepath.Join(GinkgoT().TempDir(), "key.txt")
	Expect(os.WriteFile(b.identity, []byte(b.person.String()+"\n"), 0o600)).To(Succeed())
	b.prepare, b.edit = b.writeCredentials, b.backUp
	return b
}

// writeCredentials puts the Secrets that spec.etcd.backup.store names into the tenant's namespace.
func (b *backedUp) writeCredentials(ctx context.Context) {
	GinkgoHelper()
	for name, data := range map[string]map[string][]byte{
		"s3":    {"accessKeyID": []byte(b.store.AccessKeyID), "secretAccessKey": []byte(b.store.SecretAccessKey)},
		"s3-ca": {"ca.crt": b.store.CA},
	} {
		Expect(env.client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: name}, Data: data})).To(Succeed())
	}
}

// bucketOf is the store of a tenant.
func (b *backedUp) bucketOf(prefix string) controlplanev1.EtcdSnapshotStore {
	return controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{
		Endpoint: b.store.Endpoint, Bucket: bucket, Prefix: prefix,
		CredentialsRef: controlplanev1.SecretReference{Name: "s3"}, CARef: controlplanev1.SecretReference{Name: "s3-ca"},
	}}
}

func (b *backedUp) backUp(c *controlplanev1.KOKControlPlane) {
	c.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{
		Every: &metav1.Duration{Duration: backupEvery}, Keep: controlplanev1.EtcdSnapshotRetention{Last: ptr.To[int32](10)},
		Recipients: []string{b.person.Recipient().String()}, Store: b.bucketOf(""),
	}
}

// restoresFrom has the tenant, when it is made, begin with a snapshot of another one, as a person has it who has the bucket and a key. The
// time is set when the person begins.
func (b *backedUp) restoresFrom(former client.ObjectKey, which ...string) *time.Time {
	began, printed := &time.Time{}, struct {
		Spec controlplanev1.KOKControlPlaneSpec `json:"spec"`
	}{}
	b.prepare = func(ctx context.Context) {
		*began = time.Now()
		b.writeCredentials(ctx)
		lines, err := env.output(ctx, "bin/kok", append([]string{"etcd", "restore", b.Name, "--namespace", b.Namespace, "--identity-file", b.identity,
			"--s3-endpoint", b.store.Endpoint, "--s3-bucket", bucket, "--s3-prefix", former.Namespace + "/" + former.Name,
			"--s3-credentials-secret", "s3", "--s3-ca-secret", "s3-ca", "--kubeconfig", env.proxy.GetKubeconfigPath()}, which...)...)
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.UnmarshalStrict(lines, &printed)).To(Succeed(), "%s", lines)
	}
	b.edit = func(c *controlplanev1.KOKControlPlane) {
		b.backUp(c)
		c.Spec.Etcd.Restore, c.Spec.KeyRotation = printed.Spec.Etcd.Restore, printed.Spec.KeyRotation
	}
	return began
}

// fill makes objects of which a later look can tell whether all are there, as they were.
func (b *backedUp) fill(ctx context.Context) {
	GinkgoHelper()
	for i := range kept {
		meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("kept-%03d", i)}
		_, err := b.api.CoreV1().ConfigMaps(meta.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"value": meta.Name}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = b.api.CoreV1().Secrets(meta.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"value": meta.Name}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

// expectFilled reads what fill made.
func (b *backedUp) expectFilled(ctx context.Context) {
	GinkgoHelper()
	for i := range kept {
		name := fmt.Sprintf("kept-%03d", i)
		configMap, err := b.api.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		secret, err := b.api.CoreV1().Secrets(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(configMap.Data["value"]).To(Equal(name))
		Expect(string(secret.Data["value"])).To(Equal(name))
	}
}

// restoreInto makes a new tenant that begins with a snapshot of this one, and has the same store and person. It goes when the spec ends.
func (b *backedUp) restoreInto(ctx context.Context, name string, taken *controlplanev1.KOKEtcdSnapshot, named string) *backedUp {
	GinkgoHelper()
	restored := &backedUp{tenant: newTenant(name, b.version, nil), store: b.store, person: b.person, identity: b.identity}
	DeferCleanup(func(ctx SpecContext) {
		if !settings.keep {
			restored.remove(ctx)
		}
	}, NodeTimeout(2*creation))
	began := restored.restoresFrom(b.ObjectKey, "--slot", taken.Status.Slot)
	restored.create(ctx)
	env.log.Print("restored into %s after %.1fs", restored.ObjectKey, time.Since(*began).Seconds())
	figure(named, fmt.Sprintf("%.1f", time.Since(*began).Seconds()), "s")
	return restored
}

// expectBackedUp waits until the condition says so.
func (b *backedUp) expectBackedUp(ctx context.Context, within time.Duration) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		controlPlane := &controlplanev1.KOKControlPlane{}
		g.Expect(env.client.Get(ctx, b.ObjectKey, controlPlane)).To(Succeed())
		condition := conditions.Get(controlPlane, conditionsv1.EtcdBackedUpCondition)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Status).To(Equal(metav1.ConditionTrue), condition.Message)
	}).WithTimeout(within).Should(Succeed(), "EtcdBackedUp of %s", b.ObjectKey)
}

// kok runs the program for people.
func kok(ctx context.Context, args ...string) error {
	return env.run(ctx, "bin/kok", append(args, "--kubeconfig", env.proxy.GetKubeconfigPath())...)
}

// take has a snapshot taken as a person does, and returns its object.
func (b *backedUp) take(ctx context.Context) *controlplanev1.KOKEtcdSnapshot {
	GinkgoHelper()
	Expect(kok(ctx, "etcd", "snapshot", b.Name, "--namespace", b.Namespace)).To(Succeed())
	list := &controlplanev1.KOKEtcdSnapshotList{}
	listAll(ctx, list, client.InNamespace(b.Namespace))
	taken := slices.DeleteFunc(list.Items, func(s controlplanev1.KOKEtcdSnapshot) bool { return s.Spec.Slot != "" || s.Spec.Source != nil })
	Expect(taken).NotTo(BeEmpty(), "KOKEtcdSnapshots that a person made")
	newest := slices.MaxFunc(taken, func(a, b controlplanev1.KOKEtcdSnapshot) int { return strings.Compare(a.Status.Slot, b.Status.Slot) })
	Expect(conditions.IsTrue(&newest, conditionsv1.SnapshotVerifiedCondition)).To(BeTrue(), "%+v", newest.Status)
	return &newest
}

// contents are all keys of an etcd with their values, at a revision, but those that live as long as a program that writes them.
func contents(ctx context.Context, etcd *clientv3.Client, revision int64) map[string][]byte {
	GinkgoHelper()
	all := map[string][]byte{}
	from := "\x00"
	for {
		page, err := etcd.Get(ctx, from, clientv3.WithFromKey(), clientv3.WithLimit(1000), clientv3.WithRev(revision))
		Expect(err).NotTo(HaveOccurred())
		for _, pair := range page.Kvs {
			if passing(string(pair.Key)) {
				continue
			}
			all[string(pair.Key)] = pair.Value
		}
		if !page.More {
			return all
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// writtenAfter returns the keys that were written after a revision, of those that etcd has at another one.
func writtenAfter(ctx context.Context, etcd *clientv3.Client, revision, at int64) []string {
	GinkgoHelper()
	written, err := etcd.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithMinModRev(revision+1), clientv3.WithRev(at))
	Expect(err).NotTo(HaveOccurred())
	keys := make([]string, len(written.Kvs))
	for i, pair := range written.Kvs {
		keys[i] = string(pair.Key)
	}
	return keys
}

// firstRevision is the first revision of an etcd that was restored: all before it are compacted. It is ahead of that of the snapshot.
func firstRevision(ctx context.Context, etcd *clientv3.Client, snapshot int64) int64 {
	GinkgoHelper()
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	// A watch of what is compacted is told where to begin.
	first := (<-etcd.Watch(watching, "/", clientv3.WithRev(1))).CompactRevision
	Expect(first).To(BeNumerically(">=", snapshot+revisionsAhead))
	return first
}

// passing reports whether a key is one that programs write again all the time.
func passing(key string) bool {
	return strings.HasPrefix(key, "/registry/leases/") || strings.HasPrefix(key, "/registry/masterleases/") || key == "compact_rev_key"
}

// differences are keys that two etcds do not have alike.
func differences(a, b map[string][]byte) []string {
	var different []string
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if there, ok := b[key]; !ok || !bytes.Equal(a[key], there) {
			different = append(different, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[key]; !ok {
			different = append(different, key)
		}
	}
	return different
}

var _ = Describe("The backup of a tenant's etcd", Label(full, etcdBackups), func() {
	It("is taken, verified, and restored into a new Cluster, from the bucket and a person's key alone", Label("restored"), func(ctx SpecContext) {
		b := newBackedUp(ctx, "backed-up")
		b.createToLose(ctx)
		taken, before := b.takeAll(ctx)

		By("the tenant, and all that the management cluster knows of it, is lost")
		b.remove(ctx)

		restored := b.restoreInto(ctx, "restored", taken, "recovery_seconds_restore")
		restored.expectAsIn(ctx, taken, before, "restore_objects_different")
		restored.expectFilled(ctx)
		restored.expectBackedUp(ctx, creation+backupEvery)
	}, SpecTimeout(8*creation+3*backupEvery))

	It("goes on while the link to the cloud is cut", Label("cut", slow), func(ctx SpecContext) {
		b := newBackedUp(ctx, "backed-up-cut")
		DeferCleanup(func(ctx SpecContext) {
			if !settings.keep {
				b.remove(ctx)
			}
		}, NodeTimeout(2*creation))
		b.create(ctx)
		b.expectBackedUp(ctx, creation+backupEvery)
		pods := b.snapshot(ctx)

		Expect(env.lab.Cut(ctx)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(env.lab.Heal(ctx)).To(Succeed()) })
		began := time.Now()
		passTime(ctx, backupCut, func() string {
			return fmt.Sprintf("%d snapshots of the time since the cut are verified", len(b.verifiedSince(began)))
		})
		during := b.verifiedSince(began)
		Expect(env.lab.Heal(ctx)).To(Succeed())
		// The first slot may have begun before the cut.
		goesOn := 0
		if len(during) >= int(backupCut/backupEvery)-1 {
			goesOn = 1
		}
		figure("backup_goes_on_while_cut", goesOn, "")
		Expect(goesOn).To(Equal(1), "snapshots %v in %s", during, backupCut)

		b.expectHealthy(ctx)
		b.expectBackedUp(ctx, creation)
		Eventually(ctx, func(g Gomega) {
			list := &controlplanev1.KOKEtcdSnapshotList{}
			g.Expect(env.client.List(ctx, list, client.InNamespace(b.Namespace))).To(Succeed())
			var slots []string
			for i := range list.Items {
				if conditions.IsTrue(&list.Items[i], conditionsv1.SnapshotVerifiedCondition) {
					slots = append(slots, list.Items[i].Status.Slot)
				}
			}
			g.Expect(slots).To(ContainElements(during))
		}).WithTimeout(creation).Should(Succeed(), "objects of the snapshots of that time")
		Expect(b.snapshot(ctx)).To(Equal(pods), "no pod of the tenant restarted")
	}, SpecTimeout(5*creation+2*backupEvery+backupCut))
})

// verifiedSince are the names of snapshots in the bucket that are of a slot after a time, and verified.
func (b *backedUp) verifiedSince(began time.Time) []string {
	GinkgoHelper()
	files, err := os.ReadDir(filepath.Join(b.store.Folder, bucket, b.Namespace, b.Name))
	Expect(err).NotTo(HaveOccurred())
	var slots []string
	for _, file := range files {
		if slot, kind := archive.ParseName(file.Name()); kind == archive.VerificationFile && slot.After(began) {
			slots = append(slots, archive.SlotName(slot))
		}
	}
	return slots
}
