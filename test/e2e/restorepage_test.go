//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/docs/steps"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/shell"
)

// One shell runs every command of docs/restore-etcd.md as it is written, but for those of notTried. Where a reader has their own value, such as the
// name of a snapshot or the bucket, the command gets the lab's.
var _ = Describe("The page of restores", Label(full, etcdBackups, "restore_page"), func() {
	It("leads a tenant back in place, and into a new Cluster, by its commands", func(ctx SpecContext) {
		b := newBackedUp(ctx, "blue")
		b.Namespace = "team"
		b.createToLose(ctx)
		taken, has := b.takeAll(ctx)
		p := b.open()

		By("a snapshot is restored in place")
		Expect(p.follow(ctx, "kok etcd list blue")).To(ContainSubstring(taken.Name))
		p.follow(ctx, "kok etcd restore-in-place blue blue-", "blue-20260304t050000z", taken.Name)
		b.expectAllBack(ctx)
		b.expectAsIn(ctx, taken, has, "page_in_place_objects_different")

		By("former data are given up")
		members := b.members(ctx, names.EtcdData)
		claim := "kok-data-" + members[0]
		former := b.claim(ctx, claim)
		p.follow(ctx, "kubectl delete persistentvolumeclaim ")
		p.follow(ctx, "kubectl delete pod ")
		Eventually(ctx, func(g Gomega) {
			g.Expect(b.claim(ctx, claim)).NotTo(BeElementOf(former, types.UID("")))
			g.Expect(b.members(ctx, names.EtcdData)).To(Equal(members))
		}).WithTimeout(recovering).Should(Succeed(), "the member begins on another volume")
		b.expectAllBack(ctx)

		By("most members lose their data")
		b.wipe(ctx, members[:2]...)
		b.toldCommand(ctx, "--survivor "+members[2])
		p.follow(ctx, "kok etcd restore-in-place blue --namespace team --survivor")
		b.expectAllBack(ctx)
		p.follow(ctx, "kok etcd snapshot blue")
		b.expectFilled(ctx)

		By("the etcd with the events begins anew")
		cluster := b.etcdStatus(ctx, names.EtcdEvents).ClusterID
		p.follow(ctx, "kok etcd restore-in-place blue --namespace team --events")
		b.expectAllBack(ctx)
		Expect(b.etcdStatus(ctx, names.EtcdEvents).ClusterID).NotTo(Equal(cluster), "the ID of the etcd with the events")

		By("a snapshot begins a new Cluster")
		taken, has = b.takeAll(ctx)
		Expect(p.follow(ctx, "kok etcd list blue")).To(ContainSubstring(taken.Name))
		p.follow(ctx, "kubectl create secret generic s3 ", "generic s3 ", "generic s3-green ")
		own := []string{
			"https://s3.example.com", b.store.Endpoint, "--s3-bucket backups", "--s3-bucket " + bucket,
			"--s3-credentials-secret s3", "--s3-credentials-secret s3-green --s3-ca-secret s3-ca",
		}
		Expect(p.follow(ctx, "kok etcd restore green --namespace team --identity-file key.txt --dry-run", own...)).To(ContainSubstring(taken.Status.Slot))
		const lines = "restore.yaml"
		p.run(ctx, p.take("kok etcd restore green --namespace team --identity-file key.txt --latest", own...)+" > "+lines)
		p.write("blue.kubeconfig", b.secret(ctx, secret.Name(b.Name, secret.Kubeconfig)).Data[secret.KubeconfigDataName])
		_, fingerprint, found := strings.Cut(strings.TrimSpace(p.follow(ctx, "kubectl --kubeconfig blue.kubeconfig")), "=")
		Expect(found).To(BeTrue(), "openssl prints a fingerprint")
		Expect(p.read(lines)).To(And(ContainSubstring(fingerprint), ContainSubstring(taken.Status.Slot)), "the former cluster CA and the newest snapshot")
		green := b.green(p.read(lines))
		manifests, err := green.quickstart().Manifests(ctx, green.variables)
		Expect(err).NotTo(HaveOccurred())
		p.write("green.yaml", manifests)
		p.follow(ctx, "kubectl apply ")
		Expect(green.quickstart().Wait(ctx)).To(Succeed())
		Expect(p.follow(ctx, "kok status green")).To(ContainSubstring("green"))
		green.connect(ctx)
		green.expectHealthy(ctx)
		green.expectAsIn(ctx, taken, has, "page_restored_objects_different")
		green.expectFilled(ctx)

		Expect(p.follow(ctx, "kubectl get kokcontrolplane blue")).NotTo(BeEmpty(), "the first port")
		Expect(p.left).To(HaveExactElements(notTried...), "commands of %s that nobody tried", restorePage)
	}, SpecTimeout(10*creation+4*restoring+recovering+3*backupEvery))
})

// restorePage is the page.
const restorePage = "docs/restore-etcd.md"

// notTried are the beginnings of the commands that this spec does not run. The specs of former_data run the first one, for it needs host nodes
// that are gone for good. No spec runs the second one: it needs a volume that all members mount.
var notTried = []any{
	HavePrefix("kok etcd restore-in-place blue --namespace team --survivor blue-etcd-data-2 \\\n  --given-up "),
	HavePrefix("kok etcd restore green --namespace team --identity-file key.txt --claim "),
}

// page is a reader who follows the page of restores.
type page struct {
	shell  *shell.Shell
	folder string
	// left are the commands that were not run yet.
	left []string
}

// open gives a reader the page, and a folder and a shell with what the page wants: programs, the key, and the password of the store.
func (b *backedUp) open() *page {
	GinkgoHelper()
	p := &page{folder: GinkgoT().TempDir()}
	found, err := markdown.Read(restorePage)
	Expect(err).NotTo(HaveOccurred())
	for _, block := range found.Blocks {
		if block.Language == "sh" {
			p.left = append(p.left, steps.Commands(block.Code)...)
		}
	}
	for name, program := range map[string]string{"kubectl": env.kubectl, "kok": "bin/kok", "key.txt": b.identity} {
		path, err := filepath.Abs(program)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Symlink(path, filepath.Join(p.folder, name))).To(Succeed())
	}
	p.shell, err = shell.Start(shell.Options{Folder: p.folder, Env: append(os.Environ(), "PATH="+p.folder+":"+os.Getenv("PATH"),
		"KUBECONFIG="+env.proxy.GetKubeconfigPath(), "ACCESS_KEY_ID="+b.store.AccessKeyID, "SECRET_ACCESS_KEY="+b.store.SecretAccessKey)})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(p.shell.Close()).To(Succeed()) })
	return p
}

// follow runs the next command that begins so, and returns what it prints.
func (p *page) follow(ctx context.Context, beginning string, own ...string) string {
	GinkgoHelper()
	return p.run(ctx, p.take(beginning, own...))
}

// take takes the first command that is left and begins so. own has pairs: what the page writes, and the value of the reader.
func (p *page) take(beginning string, own ...string) string {
	GinkgoHelper()
	i := slices.IndexFunc(p.left, func(command string) bool { return strings.HasPrefix(command, beginning) })
	Expect(i).To(BeNumerically(">=", 0), "%s has no more command that begins with %q", restorePage, beginning)
	command := p.left[i]
	p.left = slices.Delete(p.left, i, i+1)
	return strings.NewReplacer(own...).Replace(command)
}

// run runs a command, and returns what it prints. kok asks before it restores, but only at a terminal: --yes answers here.
func (p *page) run(ctx context.Context, command string) string {
	GinkgoHelper()
	env.log.Print("%s $ %s", restorePage, command)
	if strings.Contains(command, "restore-in-place") {
		command += " --yes"
	}
	result, err := p.shell.Run(ctx, command)
	Expect(err).NotTo(HaveOccurred())
	Expect(result.Status).To(BeZero(), "%s\n%s", command, shell.End(result.Output, lastLines))
	return result.Output
}

func (p *page) write(file string, content []byte) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(p.folder, file), content, 0o600)).To(Succeed())
}

func (p *page) read(file string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(p.folder, file))
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// claim returns the UID of a volume claim of the tenant; empty when there is none of that name.
func (b *backedUp) claim(ctx context.Context, name string) types.UID {
	GinkgoHelper()
	claim := &corev1.PersistentVolumeClaim{}
	Expect(client.IgnoreNotFound(env.client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, claim))).To(Succeed())
	return claim.UID
}

// green returns the tenant that begins with a snapshot of this one, as the lines say that kok printed. It is deleted when the spec ends.
func (b *backedUp) green(lines string) *backedUp {
	GinkgoHelper()
	printed := struct {
		Spec controlplanev1.KOKControlPlaneSpec `json:"spec"`
	}{}
	Expect(yaml.UnmarshalStrict([]byte(lines), &printed)).To(Succeed(), "%s", lines)
	green := &backedUp{tenant: newTenant("green", b.version, nil), store: b.store, person: b.person, identity: b.identity}
	green.Namespace = b.Namespace
	green.edit = func(c *controlplanev1.KOKControlPlane) {
		green.backUp(c)
		c.Spec.Etcd.Restore, c.Spec.KeyRotation = printed.Spec.Etcd.Restore, printed.Spec.KeyRotation
	}
	DeferCleanup(func(ctx SpecContext) {
		if !settings.keep && env.client.Get(ctx, green.ObjectKey, green.clusterObject()) == nil {
			green.delete(ctx)
		}
	}, NodeTimeout(2*creation))
	return green
}
