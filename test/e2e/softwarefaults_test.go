//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
)

// softwareFault is something that keeps a bare host from getting its software.
type softwareFault struct {
	name string
	// reason of the condition Bootstrapped, and what its message says besides the host and the way out.
	reason software.Reason
	says   []string
	// change changes what the KOKSoftware says; cause causes the fault, and returns how it is undone. Each may be nil.
	change func(*bootstrapv1.KOKSoftware)
	cause  func(context.Context) (undo func(context.Context))
}

// One bare host is there for one Machine, and something keeps it from getting its software.
var _ = Describe("A bare host", Ordered, ContinueOnFailure, Label(full, selfInstalled), func() {
	const version = "v1.36.3"
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	w := &onlyWorker{tenant: newTenant("bare-hosts", version, variables)}
	w.workers = 1
	var first, second *mirror.Mirror
	var before map[string]string
	described := 0
	// use has the Machine to come install what the first mirror has, and then others.
	use := func(ctx context.Context, change func(*bootstrapv1.KOKSoftware), others ...*mirror.Mirror) {
		GinkgoHelper()
		described++
		wanted, err := first.Software(ctx, w.Namespace, fmt.Sprintf("software-%d", described), version, others...)
		Expect(err).NotTo(HaveOccurred())
		if change != nil {
			change(wanted)
		}
		w.useSoftware(ctx, first, wanted)
	}

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(w.tenant)
		content := siteContent(ctx, version)
		first, second = startMirror(ctx, content), startMirror(ctx, content)
		w.create(ctx)
		w.scale(ctx, 0)
		name := w.bareHosts(ctx, 1, "debian-12")[0]
		w.host, w.worker = client.ObjectKey{Namespace: w.Namespace, Name: name}, labHost(name)
		Expect(w.quickstart().InstallNetwork(ctx, env.network)).To(Succeed())
		w.expectWorkers(ctx, 0)
		before = settledState(ctx, w.worker, bareState)
	}, NodeTimeout(2*building+2*creation+2*join))

	BeforeEach(func(ctx SpecContext) {
		w.scale(ctx, 0)
		w.expectWorkers(ctx, 0)
	}, NodeTimeout(join))

	var entries []TableEntry
	for _, f := range w.softwareFaults(version, func() *mirror.Mirror { return first }) {
		entries = append(entries, Entry("("+f.name+")", f, SpecTimeout(4*join)))
	}

	DescribeTable("that cannot get its software says why, and is as before when its Machine is deleted", func(ctx SpecContext, f softwareFault) {
		use(ctx, f.change) // before the fault, for digests are read from the mirror
		undo := func(context.Context) {}
		if f.cause != nil {
			undo = f.cause(ctx)
			DeferCleanup(undo, NodeTimeout(join))
		}
		w.scale(ctx, 1)
		w.expectWaiting(ctx, infrav1.BootstrappedCondition, string(f.reason),
			append([]string{"on IDCHost " + w.host.Name, "delete the Machine"}, f.says...)...)
		w.expectClaimedBy(ctx, w.machines(ctx)[0].Name)
		nodes, err := w.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(nodes.Items).To(BeEmpty())
		w.scale(ctx, 0)
		w.expectWorkers(ctx, 0)
		undo(ctx)
		expectState(ctx, w.worker, before)
	}, entries)

	It("whose first mirror ends early uses the second, which asks for a password, and tells it", func(ctx SpecContext) {
		const secret = "second-mirror"
		Expect(env.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: secret, Labels: map[string]string{giveaway.Label: giveaway.Allowed}}, Type: corev1.SecretTypeBasicAuth,
			StringData: map[string]string{corev1.BasicAuthUsernameKey: mirror.User, corev1.BasicAuthPasswordKey: mirror.Password},
		})).To(Succeed())
		use(ctx, func(s *bootstrapv1.KOKSoftware) {
			for i := range s.Spec.Mirrors {
				s.Spec.Mirrors[i].Endpoints[1].SecretRef.Name = secret
			}
		}, second)
		kubelet := mirror.KubeletURL(version)
		DeferCleanup(first.Misbehave(mirror.PathOf(kubelet), mirror.EndEarly))
		DeferCleanup(second.Misbehave("/dl.k8s.io/", mirror.AskPassword))
		w.scale(ctx, 1)
		w.expectWorkers(ctx, 1)
		w.expectKubelets(ctx, version)
		w.expectAvoided(ctx, first.URL+mirror.PathOf(kubelet)+": ")
		result := softwareResult(ctx, w.worker)
		Expect(result.Reason).To(BeEmpty(), result.Message)
		Expect(result.Avoided).To(ContainElement(HavePrefix(first.URL+mirror.PathOf(kubelet)+": ")), "sources that failed")
		Expect(strings.Join(result.Avoided, " ")).NotTo(ContainSubstring(mirror.Password))
		journal, err := w.worker.Exec(ctx, nil, "journalctl", "--no-pager", "--output=cat")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Contains(string(journal), mirror.Password)).To(BeFalse(), "the mirror's password is in the journal of %s", w.host.Name)
	}, SpecTimeout(3*join))
})

// expectAvoided expects a machine that is bootstrapped, and says which source did not give a file. Its Machine says so, too.
func (w *onlyWorker) expectAvoided(ctx context.Context, source string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		machines := w.machines(ctx)
		g.Expect(machines).To(HaveLen(1))
		machine := &infrav1.IDCMachine{}
		g.Expect(env.client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: machines[0].Spec.InfrastructureRef.Name}, machine)).To(Succeed())
		for name, object := range map[string]conditions.Getter{
			infrav1.BootstrappedCondition: machine, infrav1.ReadyCondition: machine, clusterv1.MachineInfrastructureReadyCondition: &machines[0],
		} {
			condition := conditions.Get(object, name)
			g.Expect(condition).NotTo(BeNil(), name)
			g.Expect(condition.Status).To(Equal(metav1.ConditionTrue), "%s: %s", name, condition.Message)
			g.Expect(condition.Message).To(And(ContainSubstring("other sources gave what these did not: "), ContainSubstring(source)), name)
			g.Expect(condition.Message).NotTo(ContainSubstring(mirror.Password), name)
		}
	}).WithTimeout(time.Minute).Should(Succeed(), "conditions of the machine of %s", w.ObjectKey)
}

// softwareFaults are those of one mirror and one host.
func (w *onlyWorker) softwareFaults(version string, site func() *mirror.Mirror) []softwareFault {
	kubelet := mirror.KubeletURL(version)
	misbehaves := func(path string, fault mirror.Fault) func(context.Context) func(context.Context) {
		return func(context.Context) func(context.Context) {
			behave := site().Misbehave(path, fault)
			return func(context.Context) { behave() }
		}
	}
	file := mirror.PathOf(kubelet)
	return []softwareFault{
		{
			name: "a digest that no file has", reason: software.NoSource, says: []string{mirror.Kubelet, file, "SHA-256"},
			change: func(s *bootstrapv1.KOKSoftware) {
				componentOf(s, mirror.Kubelet).Variants[0].Archive.SHA256 = strings.Repeat("0", 64)
			},
		},
		{name: "a mirror that lies", reason: software.NoSource, says: []string{mirror.Kubelet, file, "SHA-256"}, cause: misbehaves(file, mirror.Lie)},
		{name: "a mirror that ends early", reason: software.NoSource, says: []string{mirror.Kubelet, file}, cause: misbehaves(file, mirror.EndEarly)},
		{name: "a mirror that stalls", reason: software.NoSource, says: []string{mirror.Kubelet, file}, cause: misbehaves(file, mirror.Stall)},
		{name: "a mirror that is away", reason: software.NoSource, says: []string{file}, cause: misbehaves("/dl.k8s.io/", mirror.Away)},
		{name: "a mirror that asks for a password", reason: software.NoSource, says: []string{file, "401"}, cause: misbehaves("/dl.k8s.io/", mirror.AskPassword)},
		{name: "a full disk", reason: software.NoRoom, says: []string{"/opt/"}, cause: w.fillDisk},
		{name: "a distribution that nobody knows", reason: software.NoVariant, says: []string{"plan9 4"}, cause: w.becomeUnknown},
		{
			name: "a container runtime that does not start", reason: software.NotWorking, says: []string{mirror.Containerd},
			change: func(s *bootstrapv1.KOKSoftware) {
				c := componentOf(s, mirror.Containerd)
				c.Files[0].Content, c.Check.TimeoutSeconds = ptr.To("version = 99\n"), 10
			},
		},
	}
}

// fillDisk leaves the host room for the installer, and for little else.
func (w *onlyWorker) fillDisk(ctx context.Context) func(context.Context) {
	GinkgoHelper()
	w.exec(ctx, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", "/opt")
	return func(ctx context.Context) {
		if _, err := w.worker.Exec(ctx, nil, "mountpoint", "--quiet", "/opt"); err == nil {
			w.exec(ctx, "umount", "/opt")
		}
	}
}

// becomeUnknown makes the host say that it runs what no variant is for.
func (w *onlyWorker) becomeUnknown(context.Context) func(context.Context) {
	GinkgoHelper()
	const path = "/etc/os-release"
	Expect(w.worker.WriteFile(path, []byte("ID=plan9\nVERSION_ID=4\nNAME=\"Plan 9\"\n"), 0o644)).To(Succeed())
	return func(context.Context) { Expect(w.worker.Symlink("../usr/lib/os-release", path)).To(Succeed()) }
}
