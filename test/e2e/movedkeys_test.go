//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// moveTo moves the tenant from the host cluster to another management cluster.
func (t *tenant) moveTo(ctx context.Context, other *management) {
	GinkgoHelper()
	Expect(env.run(ctx, env.clusterctl, "move", "--namespace", t.Namespace, "--to-kubeconfig", other.kubeconfig, "--config", clusterctlConfig())).To(Succeed())
	t.managedBy = other.client
}

// moveBack moves the tenant from another management cluster to the host cluster.
func (t *tenant) moveBack(ctx context.Context, other *management) {
	GinkgoHelper()
	Expect(env.run(ctx, env.clusterctl, "move", "--namespace", t.Namespace, "--kubeconfig", other.kubeconfig,
		"--to-kubeconfig", env.proxy.GetKubeconfigPath(), "--config", clusterctlConfig())).To(Succeed())
	t.managedBy = nil
}

// rotateOnTheMove rotates all keys of a tenant that another management cluster manages. The link between the other management cluster and
// the host cluster is cut when the first phase begins. The tenant moves in the middle of the first phase and of the second one.
func (t *tenant) rotateOnTheMove(ctx context.Context, other *management, worker *host.Host) {
	GinkgoHelper()
	former := t.formerKeys(ctx)
	byAttacker, err := t.formerCA(ctx, pki.CACert, pki.CAKey).Client("attacker", "system:masters")
	Expect(err).NotTo(HaveOccurred())
	tries := func() []try {
		ofCA := at(append(t.servers(ctx), kubeletOf(ctx, worker)), certificate("who has the key of the former cluster CA", byAttacker))
		return append(former.tries(ctx, t, worker), ofCA...)
	}
	expectTaken(ctx, tries())
	t.writeSecrets(ctx)

	// The endpoint of the other management cluster is an address of a Service, which leads there through the cloud.
	direct, err := client.New(other.keptConfig(other.apiServerAddresses(ctx)[0], nil), client.Options{Scheme: env.client.Scheme()})
	Expect(err).NotTo(HaveOccurred())

	By("the link is cut when both keys of each kind are to become good")
	DeferCleanup(func(ctx SpecContext) { Expect(env.lab.Heal(ctx)).To(Succeed()) })
	other.patch(ctx, t.object(), fmt.Sprintf(`{"spec":{"keyRotation":{"kinds":[%q,%q,%q,%q,%q,%q],"prepareAfter":%q}}}`,
		controlplanev1.ServiceAccountKeyKind, controlplanev1.EncryptionKeyKind, controlplanev1.ClusterCAKind, controlplanev1.FrontProxyCAKind,
		controlplanev1.EtcdCAKind, controlplanev1.EtcdEventsCAKind, time.Now().UTC().Format(time.RFC3339)))
	Expect(env.lab.Cut(ctx)).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		controlPlane := &controlplanev1.KOKControlPlane{}
		g.Expect(direct.Get(ctx, t.ObjectKey, controlPlane)).To(Succeed())
		g.Expect(conditions.GetReason(controlPlane, conditionsv1.AvailableCondition)).To(Equal(conditionsv1.HostClusterUnreachableReason))
	}).WithTimeout(creation).Should(Succeed(), "the manager notices that the link is cut")
	Expect(env.lab.Heal(ctx)).To(Succeed())

	By("it moves before both keys are good")
	journals, came := t.startJournals(ctx, "of-before", worker), &ended{}
	t.expectKeys(ctx, conditionsv1.KeysPreparingReason)
	t.moveBack(ctx, other)
	t.expectKeys(ctx, conditionsv1.KeysPreparedReason)
	expectTaken(ctx, tries())
	t.end(ctx, "moved_rotation", journals, came)

	By("people have other kubeconfigs, and pods start anew")
	t.connect(ctx)
	journals = t.startJournals(ctx, "of-now", worker)
	t.restartPods(ctx)

	By("it moves again while the former keys are dropped")
	t.dropFormerKeys(ctx)
	t.expectKeys(ctx, conditionsv1.KeysCompletingReason)
	t.moveTo(ctx, other)
	t.expectKeys(ctx, conditionsv1.KeysNotRotatingReason)

	last := tries()
	taken := takenAfter(ctx, time.Now(), last)
	figure("moved_old_credentials_tried", len(last), "tokens and certificates by former keys, after a rotation in which the tenant moved twice")
	figure("moved_old_credentials_accepted_after", taken, "of these")
	Expect(taken).To(BeZero(), "credentials of former keys that are taken")
	Expect(encryptedBy(ctx, t.etcds(ctx))).To(And(HaveLen(1), HaveKey(HavePrefix("key-"))), "names of keys in etcd")
	t.expectSecrets(ctx)
	t.end(ctx, "moved_rotation", journals, came)
	came.tell("moved_rotation")
	// Its etcds have a single member each, and while one starts again requests fail.
	Expect(came.missing).To(BeEmpty(), "acknowledged writes that are lost")
	Expect(came.unseen).To(BeEmpty(), "acknowledged writes that watches did not bring")
	Expect(came.sparse).To(BeEmpty(), "journals that wrote too little to tell")
	t.expectAllWell(ctx, other.client)
	t.expectMachines(ctx, other.client, 2)
}
