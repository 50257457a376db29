//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/readiness"
)

// What is tried by former keys is in the specs of the cluster CA and of the other kinds.
var _ = Describe("All keys of a tenant", Label(full, ofKeys, "all_keys"), func() {
	It("rotate at once, of all six kinds", func(ctx SpecContext) {
		requireLab()
		t := newTenant("all-keys", "v1.36.3", map[string]string{"KUBE_PROXY_CONNTRACK": "None"}) // the lab's hosts share the machine's kernel
		t.workers = 1
		removeWithHosts(t)
		t.createWithWorkers(ctx, 0)
		worker := t.worker(ctx)
		before, members, pods := t.snapshot(ctx), t.members(ctx), t.watchReadiness(ctx)
		journals, came := t.startJournals(ctx, "of-before", worker), &ended{}
		nodes, err := readiness.Watch(ctx, t.api, clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		began, term := time.Now(), t.term(ctx)

		By("both keys of each kind are good")
		kinds, err := json.Marshal([]controlplanev1.KeyKind{
			controlplanev1.ServiceAccountKeyKind, controlplanev1.EncryptionKeyKind, controlplanev1.ClusterCAKind, controlplanev1.FrontProxyCAKind,
			controlplanev1.EtcdCAKind, controlplanev1.EtcdEventsCAKind,
		})
		Expect(err).NotTo(HaveOccurred())
		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"kinds":%s,"prepareAfter":%q}}}`, kinds, time.Now().UTC().Format(time.RFC3339)))
		t.expectKeys(ctx, conditionsv1.KeysPreparedReason)
		t.end(ctx, "rotation_of_all", journals, came)
		notReady := nodes.NotReady()

		By("people have other kubeconfigs, and pods start anew")
		t.connect(ctx)
		journals = t.startJournals(ctx, "of-now", worker)
		nodes, err = readiness.Watch(ctx, t.api, clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		t.restartPods(ctx)

		By("the former keys are dropped")
		t.dropFormerKeys(ctx)
		t.expectKeys(ctx, conditionsv1.KeysNotRotatingReason)
		figure("rotation_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s, of all six kinds")
		t.connect(ctx)
		t.expectWorkers(ctx, t.workers)
		Expect(t.quickstart().Hello(ctx)).To(Succeed())
		figure("rotation_of_all_not_ready_seconds", fmt.Sprintf("%.1f", (notReady+nodes.NotReady()).Seconds()), "s in which a worker's Node was not ready")
		t.expectHealthy(ctx)
		t.end(ctx, "rotation_of_all", journals, came)
		came.tell("rotation_of_all")
		figure("rotation_of_all_elections", t.term(ctx)-term, "of the etcd with data")
		came.expectEtcdAloneFailed("rotation_of_all")
		Expect(notReady+nodes.NotReady()).To(BeZero(), "a Node was not ready for a while")
		t.expectStayed(ctx, before, members, names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler, names.EtcdData, names.EtcdEvents)
		expectOneAtATime("rotation_of_all", pods)
	}, SpecTimeout(5*creation+4*join+3*rotating))
})
