//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// noticed bounds how long a fault of a host goes unseen: one that is well is asked every minute.
const noticed = 3 * time.Minute

// One host is there for one Machine, and something is wrong with it. Nothing but the host and its objects is touched:
// once the fault is gone, all goes on by itself.
var _ = Describe("A bad host", Ordered, ContinueOnFailure, Label(full, onWorkers), func() {
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	w := &onlyWorker{tenant: newTenant("bad-hosts", "v1.36.3", variables)}
	w.workers = 1

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(w.tenant)
		w.prepare(ctx)
	}, NodeTimeout(2*creation+join))

	BeforeEach(func(ctx SpecContext) {
		w.scale(ctx, 0)
		w.expectWorkers(ctx, 0)
	}, NodeTimeout(join))

	var whileFree, whileClaimed []TableEntry
	for _, f := range w.faults() {
		whileFree = append(whileFree, Entry("("+f.name+")", f, SpecTimeout(2*noticed+2*join)))
		if f.whileClaimed {
			whileClaimed = append(whileClaimed, Entry("("+f.name+")", f, SpecTimeout(noticed+2*join)))
		}
	}

	DescribeTable("that is free says why, is claimed by nobody, and is used once it is put right", func(ctx SpecContext, f fault) {
		f.cause(ctx)
		DeferCleanup(f.undo, NodeTimeout(join))
		w.expectHost(ctx, &f)
		w.scale(ctx, 1)
		w.expectWaiting(ctx, infrav1.HostClaimedCondition, infrav1.NoHostReason,
			"none of the 1 IDCHosts in namespace "+w.Namespace, "1 not healthy, see their conditions", "add hosts, or put these right")
		Consistently(ctx, func(g Gomega) {
			host := &infrav1.IDCHost{}
			g.Expect(env.client.Get(ctx, w.host, host)).To(Succeed())
			g.Expect(host.Spec.Claim).To(BeNil())
			g.Expect(host.Finalizers).To(BeEmpty())
		}).WithTimeout(5 * time.Second).Should(Succeed())
		f.undo(ctx)
		w.expectWorkers(ctx, 1)
	}, whileFree)

	DescribeTable("that turns bad while cloud-init works says why, stays with its machine, and goes on once it is put right", func(ctx SpecContext, f fault) {
		name := w.holdCloudInit(ctx)
		f.cause(ctx)
		DeferCleanup(f.undo, NodeTimeout(join))
		w.expectWaiting(ctx, infrav1.BootstrappedCondition, f.reason, append([]string{"work on IDCHost " + w.host.Name + " failed, and is tried again: "}, f.says...)...)
		w.expectClaimedBy(ctx, name)
		f.undo(ctx)
		w.expectHeld(ctx)
		w.removeFile(ctx, holdFile)
		w.expectWorkers(ctx, 1)
		Expect(w.machines(ctx)).To(ConsistOf(HaveField("Name", name)))
	}, whileClaimed)

	It("that loses its power while cloud-init works says so, and is used again once its Machine is deleted", func(ctx SpecContext) {
		name := w.holdCloudInit(ctx)
		losePower(ctx, w.host.Name)
		w.expectWaiting(ctx, infrav1.BootstrappedCondition, infrav1.HostAwayReason, "cannot be reached", "check that it is switched on")
		w.expectClaimedBy(ctx, name)
		Expect(env.lab.PowerOn(ctx, w.host.Name)).To(Succeed())
		// cloud-init does not do again what it began with the same instance-id.
		w.expectWaiting(ctx, infrav1.BootstrappedCondition, infrav1.BootstrapFailedReason,
			"on IDCHost "+w.host.Name+" cloud-init", "put its cause right, then delete the Machine")
		w.removeFile(ctx, holdFile)
		w.replace(ctx, name)
	}, SpecTimeout(4*join))

	It("on which cloud-init fails halfway says what it said, and is used again once its Machine is deleted", func(ctx SpecContext) {
		w.write(ctx, failFile)
		w.scale(ctx, 1)
		w.expectWaiting(ctx, infrav1.BootstrappedCondition, infrav1.BootstrapFailedReason,
			"on IDCHost "+w.host.Name+" cloud-init", rackHasNoPower, "put its cause right, then delete the Machine")
		name := w.machines(ctx)[0].Name
		w.expectClaimedBy(ctx, name)
		nodes, err := w.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(nodes.Items).To(BeEmpty())
		w.removeFile(ctx, failFile)
		w.replace(ctx, name)
	}, SpecTimeout(4*join))

	DescribeTable("that cannot be cleaned says why, is in quarantine until a person acts, and is used again", func(ctx SpecContext, act func(context.Context, *infrav1.IDCHost)) {
		w.scale(ctx, 1)
		w.expectWorkers(ctx, 1)
		Expect(w.worker.WriteFile(failingProgram, []byte("#!/bin/sh\necho "+rackHasNoPower+" >&2\nexit 3\n"), 0o755)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { w.removeFile(ctx, failingProgram) }, NodeTimeout(join))
		w.scale(ctx, 0)
		host := &infrav1.IDCHost{}
		Eventually(ctx, func(g Gomega) {
			g.Expect(env.client.Get(ctx, w.host, host)).To(Succeed())
			g.Expect(host.Spec.Claim).To(BeNil())
			expectFalse(g, host, infrav1.AvailableCondition, infrav1.QuarantinedReason,
				"take back what cloud-init wrote: hostname", rackHasNoPower, "put the host right, then remove spec.quarantine")
			machines := &clusterv1.MachineList{}
			g.Expect(env.client.List(ctx, machines, client.InNamespace(w.Namespace))).To(Succeed())
			g.Expect(machines.Items).To(BeEmpty(), "the Machine does not wait for a person")
		}).WithTimeout(join).Should(Succeed())
		w.removeFile(ctx, failingProgram)
		act(ctx, host)
		expectClean(ctx, host)
		w.scale(ctx, 1)
		w.expectWorkers(ctx, 1)
	},
		Entry("(who cleans it by hand)", w.cleanByHand, SpecTimeout(6*join)),
		Entry("(who has the clean-up tried again)", w.cleanAgain, SpecTimeout(4*join)),
	)
})

// failingProgram is found before the program that a clean-up uses last.
const failingProgram = "/usr/local/sbin/hostname"

const (
	// stateFolder and its files are what the host says of its machine.
	stateFolder = "/var/lib/kok-infrastructure"
	stateFile   = stateFolder + "/machine.json"
)

// cleanByHand does what docs/data-centre-hosts.md tells people to do, in its own words.
func (w *onlyWorker) cleanByHand(ctx context.Context, host *infrav1.IDCHost) {
	GinkgoHelper()
	guide, err := os.ReadFile(filepath.Join("docs", "data-centre-hosts.md"))
	Expect(err).NotTo(HaveOccurred())
	_, section, _ := strings.Cut(string(guide), "\n## Clean a host by hand\n")
	_, block, _ := strings.Cut(section, "```sh\n")
	recipe, _, _ := strings.Cut(block, "```")
	parts := strings.Split(recipe, "sudo reboot\n")
	Expect(parts).To(HaveLen(3), "two boots are in %q", recipe)
	for _, part := range parts[:2] {
		w.exec(ctx, "/bin/sh", "-e", "-c", part)
		Expect(env.lab.PowerOff(ctx, w.host.Name)).To(Succeed())
		Expect(env.lab.PowerOn(ctx, w.host.Name)).To(Succeed())
	}
	Expect(env.client.Patch(ctx, host, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/quarantine"}]`)))).To(Succeed())
}

// cleanAgain is the other way.
func (w *onlyWorker) cleanAgain(ctx context.Context, host *infrav1.IDCHost) {
	GinkgoHelper()
	content, err := w.worker.Exec(ctx, nil, "cat", stateFile)
	Expect(err).NotTo(HaveOccurred())
	record := struct {
		InstanceID string `json:"instanceID"`
	}{}
	Expect(json.Unmarshal(content, &record)).To(Succeed())
	patch(ctx, host, fmt.Sprintf(`{"spec":{"quarantine":{"instanceID":%q}}}`, record.InstanceID))
}

// expectHost waits until the host's condition says what is wrong, and that the host cannot be had.
func (w *onlyWorker) expectHost(ctx context.Context, f *fault) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		host := &infrav1.IDCHost{}
		g.Expect(env.client.Get(ctx, w.host, host)).To(Succeed())
		expectFalse(g, host, f.condition, f.reason, f.says...)
		expectFalse(g, host, infrav1.AvailableCondition, infrav1.NotHealthyReason, "see condition "+f.condition)
	}).WithTimeout(noticed).Should(Succeed(), "IDCHost %s", w.host)
}

// expectWaiting waits until the one machine's condition says what keeps it, and the Machine says the same.
func (w *onlyWorker) expectWaiting(ctx context.Context, condition, reason string, says ...string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		machines := w.machines(ctx)
		g.Expect(machines).To(HaveLen(1))
		machine := &infrav1.IDCMachine{}
		g.Expect(env.client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: machines[0].Spec.InfrastructureRef.Name}, machine)).To(Succeed())
		expectFalse(g, machine, condition, reason, says...)
		expectFalse(g, machine, infrav1.ReadyCondition, reason, says...)
		expectFalse(g, &machines[0], clusterv1.MachineInfrastructureReadyCondition, reason, says...)
		g.Expect(ptr.Deref(machine.Status.Initialization.Provisioned, false)).To(BeFalse())
		g.Expect(machines[0].Status.NodeRef.IsDefined()).To(BeFalse())
	}).WithTimeout(join).Should(Succeed(), "%s of the machine of %s", condition, w.ObjectKey)
}

// expectFalse expects a condition that is false for a reason, and a message with all parts.
func expectFalse(g Gomega, object conditions.Getter, name, reason string, says ...string) {
	GinkgoHelper()
	condition := conditions.Get(object, name)
	g.Expect(condition).NotTo(BeNil(), name)
	g.Expect(condition.Status).To(Equal(metav1.ConditionFalse), "%s: %s", name, condition.Message)
	g.Expect(condition.Reason).To(Equal(reason), "%s: %s", name, condition.Message)
	for _, part := range says {
		g.Expect(condition.Message).To(ContainSubstring(part), name)
	}
}

// expectClaimedBy expects that the host is the Machine's, and nobody else's.
func (w *onlyWorker) expectClaimedBy(ctx context.Context, name string) {
	GinkgoHelper()
	machines := w.machines(ctx)
	Expect(machines).To(ConsistOf(HaveField("Name", name)))
	machine, host := &infrav1.IDCMachine{}, &infrav1.IDCHost{}
	get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: machines[0].Spec.InfrastructureRef.Name}, machine)
	get(ctx, w.host, host)
	Expect(host.Spec.Claim).To(Equal(&infrav1.HostClaim{Name: machine.Name, InstanceID: machine.Spec.InstanceID}))
	Expect(machine.Spec.HostRef).To(Equal(&infrav1.HostReference{Name: host.Name}))
	Expect(machine.Spec.ProviderID).To(Equal("idc://" + w.Namespace + "/" + host.Name + "/" + machine.Spec.InstanceID))
}

// replace is the way out of a bootstrap that failed: the Machine is deleted, and another takes its place.
func (w *onlyWorker) replace(ctx context.Context, name string) {
	GinkgoHelper()
	failed := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	Expect(env.client.Delete(ctx, failed)).To(Succeed())
	Eventually(ctx, func() error { return env.client.Get(ctx, client.ObjectKeyFromObject(failed), failed) }).WithTimeout(join).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "Machine %s is not deleted", name)
	w.expectWorkers(ctx, 1)
}

// setHostKeys and setKey change how the host is reached.
func (w *onlyWorker) setHostKeys(ctx context.Context, keys ...string) {
	GinkgoHelper()
	value, err := json.Marshal(keys)
	Expect(err).NotTo(HaveOccurred())
	patch(ctx, &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: w.host.Namespace, Name: w.host.Name}}, fmt.Sprintf(`{"spec":{"hostKeys":%s}}`, value))
}

func (w *onlyWorker) setKey(ctx context.Context, key []byte) {
	GinkgoHelper()
	value, err := json.Marshal(map[string][]byte{corev1.SSHAuthPrivateKey: key})
	Expect(err).NotTo(HaveOccurred())
	patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: workers.KeySecret}}, fmt.Sprintf(`{"data":%s}`, value))
}
