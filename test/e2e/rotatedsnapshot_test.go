//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// twoKeys is in every refusal of a snapshot of a former encryption key: it names that key and the present one.
const twoKeys = `signed by key \S+, and the one that is given is \S+|taken with the encryption key \S+, and the control plane has \S+`

var _ = Describe("A snapshot from before a rotation", Label(full, ofKeys, "rotated_snapshot"), func() {
	It("is refused in place once the former encryption key is dropped, and begins a new tenant, which replaces that key by itself", func(ctx SpecContext) {
		b := newBackedUp(ctx, "rotated-snapshot")
		b.createToLose(ctx)
		taken, before := b.takeAll(ctx)
		b.rotateStoredKeys(ctx)
		b.expectHealthy(ctx)
		b.take(ctx) // Without a later snapshot nobody who sees the store alone knows that the tenant has another key.
		cluster, members, runs := b.clusterID(ctx), b.tenant.members(ctx), b.snapshot(ctx)

		By("it is refused in place, and nothing stops")
		var says bytes.Buffer
		command := env.command(ctx, "bin/kok", "etcd", "restore-in-place", b.Name, taken.Name, "--namespace", b.Namespace, "--yes",
			"--timeout", restoring.String(), "--kubeconfig", env.proxy.GetKubeconfigPath())
		command.Stderr = io.MultiWriter(&says, env.log)
		Expect(command.Run()).To(HaveOccurred())
		Expect(says.String()).To(MatchRegexp(twoKeys))
		Expect(b.controlPlane(ctx).Spec.Etcd.Restore).To(BeNil(), "nothing is left of the request")

		By("it begins a new tenant")
		restored := b.restoreInto(ctx, "rotated-restored", taken, "recovery_seconds_rotated")
		restored.expectAsIn(ctx, taken, before, "rotated_objects_different")
		etcds := restored.etcds(ctx)
		Eventually(ctx, func() map[string]int { return encryptedBy(ctx, etcds) }).WithTimeout(2*rotating).
			Should(And(HaveLen(1), HaveKey(HavePrefix("key-"))), "names of keys in the new etcd")
		restored.expectKeys(ctx, conditionsv1.KeysNotRotatingReason)
		restored.expectHealthy(ctx)
		restored.expectFilled(ctx)
		restored.expectBackedUp(ctx, creation+backupEvery)

		By("the tenant that it is of goes on")
		b.expectFilled(ctx)
		Expect(b.clusterID(ctx)).To(Equal(cluster), "the ID of the data etcd")
		// A leader that gets no processor for a while gives its lease up by ending.
		b.expectStayed(ctx, runs, members, names.KubeControllerManager, names.KubeScheduler)
	}, SpecTimeout(9*creation+6*rotating+4*backupEvery))
})

// rotateStoredKeys rotates the encryption key and the CA of the data etcd to the end: no API server has the former key then, and no agent
// knows a manager by the former CA.
func (b *backedUp) rotateStoredKeys(ctx context.Context) {
	GinkgoHelper()
	byAttacker, err := b.formerCA(ctx, pki.EtcdCACert, pki.EtcdCAKey).Client(names.ManagerUser)
	Expect(err).NotTo(HaveOccurred())
	tries := func() []try {
		return at(b.snapshotAgents(ctx), certificate("who has the key of the CA of etcd, as the manager", byAttacker))
	}
	expectTaken(ctx, tries())
	Expect(encryptedBy(ctx, b.etcds(ctx))).To(And(HaveLen(1), HaveKey("key1")), "names of keys in etcd")
	patch(ctx, b.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"kinds":[%q,%q],"prepareAfter":%q}}}`,
		controlplanev1.EncryptionKeyKind, controlplanev1.EtcdCAKind, time.Now().UTC().Format(time.RFC3339)))
	b.expectKeys(ctx, conditionsv1.KeysPreparedReason)
	expectTaken(ctx, tries())
	present, etcds := And(HaveLen(1), HaveKey(HavePrefix("key-"))), b.etcds(ctx)
	Eventually(ctx, func() map[string]int { return encryptedBy(ctx, etcds) }).WithTimeout(rotating).Should(present, "names of keys in etcd")
	patch(ctx, b.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"completeAfter":%q}}}`, time.Now().UTC().Format(time.RFC3339)))
	b.expectKeys(ctx, conditionsv1.KeysNotRotatingReason)
	taken := takenAfter(ctx, time.Now(), tries())
	figure("agents_old_credentials_accepted_after", taken, "certificates by the former CA of etcd, at agents that take snapshots")
	Expect(taken).To(BeZero(), "certificates by the former CA that are taken")
	Expect(encryptedBy(ctx, b.etcds(ctx))).To(present, "names of keys in etcd")
}
