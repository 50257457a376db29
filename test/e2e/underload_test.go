//go:build e2e

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	supported "github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
	quickstart "github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
)

// underLoad are the specs of a tenant in a mode that is upgraded, scaled and hurt while it is used: through its endpoint
// and, where workers reach it, by a worker.
func underLoad(m mode) {
	const before, after = "v1.35.4", "v1.36.3"
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	t := newTenant(m.short+"-load", before, variables)
	t.mode = m
	if m.reachesWorkers() {
		t.workers = 1
	}
	if m.exposure == controlplanev1.ExposureLoadBalancer {
		t.template = &settings.podNetworkTemplate
	}
	// workers are the hosts whose load balancers journals go through.
	var workers []*host.Host

	BeforeAll(func(ctx SpecContext) {
		removeWithHosts(t)
		if t.workers == 0 {
			t.create(ctx)
			return
		}
		workers = []*host.Host{t.createOfVersion(ctx)}
		t.expectBalances(ctx, workers[0])
	}, NodeTimeout(building+3*creation+join))

	It("is upgraded by a minor, fails no request and loses no write", func(ctx SpecContext) {
		release, err := supported.BuiltIn().Release(after)
		Expect(err).NotTo(HaveOccurred())
		t.steadily(ctx, func() { t.upgradeTo(ctx, after, release.Etcd, workers...) })
	}, SpecTimeout(upgrade+3*creation+2*join))

	for _, etcd := range []struct {
		change  string
		members int
	}{{"gets two more members", 3}, {"gives up two members", 1}} {
		It(etcd.change+" of etcd, fails no request and loses no write (A9)", func(ctx SpecContext) {
			t.steadily(ctx, func() { t.scaleMembers(ctx, fmt.Sprintf("members-%d", etcd.members), etcd.members, workers...) })
		}, SpecTimeout(scaling+3*creation))
	}

	if m.isDeployment() {
		It("gets more API servers and fewer, fails no request and loses no write (A9)", func(ctx SpecContext) {
			t.steadily(ctx, func() {
				journals := t.startJournals(ctx, "api-servers", workers...)
				for _, replicas := range []int32{controlplanev1.DefaultAPIServerReplicas + 1, controlplanev1.DefaultAPIServerReplicas} {
					t.scaleAPIServers(ctx, replicas)
				}
				t.expectNothingLost(ctx, "scale", journals)
			})
		}, SpecTimeout(4*creation))
	}

	switch {
	case m.exposure == controlplanev1.ExposureLoadBalancer:
		behindBalancer(t)
	case t.workers > 0:
		It("has a worker that notices nothing when API servers are killed", func(ctx SpecContext) {
			requests, err := t.quickstart().KillAPIServer(ctx, quickstart.Worker{Name: workers[0].Name, Dial: workers[0].Dial})
			Expect(err).NotTo(HaveOccurred())
			Expect(requests.Attempts()).To(BeNumerically(">", 20))
			Expect(requests.Failures(0, load.Forever)).To(BeEmpty())
			t.killAPIServers(ctx, func() { t.expectBalances(ctx, workers[0]) })
			Expect(t.quickstart().Hello(ctx)).To(Succeed())
		}, SpecTimeout(join+4*creation))
	default:
		It("is back when API servers are killed", func(ctx SpecContext) {
			pods, err := t.pods(ctx, names.KubeAPIServer)
			Expect(err).NotTo(HaveOccurred())
			for i := range pods {
				Expect(t.quickstart().Kill(ctx, &pods[i])).To(Succeed())
			}
			t.expectHealthy(ctx)
			t.expectReached(ctx)
		}, SpecTimeout(4*creation))
	}

	It("leaves nothing behind", func(ctx SpecContext) { t.expectLeavesNothing(ctx) }, SpecTimeout(2*join))
}

// steadily does something, after which pods of the worker reach a Service by its name, and all through which the worker's
// Node was ready.
func (t *tenant) steadily(ctx context.Context, do func()) {
	GinkgoHelper()
	if t.workers == 0 {
		do()
		return
	}
	node := t.machines(ctx)[0].Status.NodeRef.Name
	since := t.readySince(ctx, node)
	do()
	Expect(t.quickstart().Hello(ctx)).To(Succeed())
	t.expectWorkers(ctx, t.workers)
	Expect(t.readySince(ctx, node)).To(Equal(since), "the Node was not ready for a while")
}

// scaleAPIServers gives the control plane a number of API servers by its subresource. That restarts nothing.
func (t *tenant) scaleAPIServers(ctx context.Context, replicas int32) {
	GinkgoHelper()
	pods, members := t.snapshot(ctx), t.members(ctx)
	Expect(env.run(ctx, env.kubectl, "scale", "kokcontrolplane", t.Name, "--namespace", t.Namespace, fmt.Sprintf("--replicas=%d", replicas))).To(Succeed())
	t.expectHealthy(ctx)
	Eventually(ctx, func() *int32 { return t.controlPlane(ctx).Status.ReadyReplicas }).Should(HaveValue(Equal(replicas)))
	t.expectStayed(ctx, pods, members)
}
