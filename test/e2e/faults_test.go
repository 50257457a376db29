//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	requests "github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/client"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

const (
	// cutTime is longer than the host cluster waits before it evicts what it does not see.
	cutTime = 7 * time.Minute
	// healTime is how long nothing may happen after the link is whole again.
	healTime = 2 * time.Minute
)

var _ = Describe("Faults of hosts and of the link to them", Ordered, Label(full, faults), func() {
	t := newTenant("faults", "v1.36.3", nil)
	removeAfter(t)

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		t.create(ctx)
		_, err := t.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(2*creation))

	It("fails no request, and restarts nothing, while the link to the cloud is cut and after", func(ctx SpecContext) {
		pods, members := t.snapshot(ctx), t.members(ctx)
		client := t.ask(ctx, "idc-1")
		look := func() string { return client.Result().String() }
		Expect(env.lab.Cut(ctx)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(env.lab.Heal(ctx)).To(Succeed()) })
		passTime(ctx, cutTime, look)
		Expect(env.lab.Heal(ctx)).To(Succeed())
		passTime(ctx, healTime, look)
		result := client.Stop()
		figure("cut_failed_requests", len(result.Failed), "requests")
		Expect(result.Failed).To(BeEmpty(), "of %d requests", result.Asked)
		t.expectHealthy(ctx)
		Expect(t.snapshot(ctx)).To(Equal(pods))
		Expect(t.members(ctx)).To(Equal(members))
	}, NodeTimeout(cutTime+healTime+2*creation))

	It("goes on without a host that lost its power, and takes it back", func(ctx SpecContext) {
		const lost = "idc-2"
		before, members := t.snapshot(ctx), t.members(ctx)
		losePower(ctx, lost)
		Eventually(ctx, func(g Gomega) {
			_, err := t.api.CoreV1().ConfigMaps(testNamespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "without-a-host-"}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}).WithTimeout(creation).Should(Succeed(), "writes")
		Expect(env.lab.PowerOn(ctx, lost)).To(Succeed())
		t.expectHealthy(ctx)
		Expect(t.members(ctx)).To(Equal(members))
		after := t.snapshot(ctx)
		for pod, was := range before {
			Expect(after).To(HaveKeyWithValue(pod, HaveField("UID", was.UID)), pod)
			switch {
			case was.Node == lost:
			case strings.Contains(pod, names.KubeControllerManager), strings.Contains(pod, names.KubeScheduler):
				// A leader whose API server is gone gives its lease up by ending.
				Expect(after[pod].Restarts).To(BeNumerically("<=", was.Restarts+1), pod)
			default:
				Expect(after[pod]).To(Equal(was), pod)
			}
		}
	}, NodeTimeout(4*creation))

	It("starts again after all hosts lost their power at once, without a DNS server in the host cluster (A4)", func(ctx SpecContext) {
		services := &corev1.ServiceList{}
		listAll(ctx, services)
		Expect(services.Items).NotTo(ContainElement(HaveField("Name", ContainSubstring("dns"))))
		members := t.members(ctx)
		hosts, err := env.lab.Hosts()
		Expect(err).NotTo(HaveOccurred())
		each(hosts, func(h *host.Host) error { return env.lab.PowerOff(ctx, h.Name) })
		each(hosts, func(h *host.Host) error { return env.lab.PowerOn(ctx, h.Name) })
		t.expectHealthy(ctx)
		Expect(t.members(ctx)).To(Equal(members))
		configMaps, err := t.api.CoreV1().ConfigMaps(testNamespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(configMaps.Items).To(ContainElement(HaveField("Name", HavePrefix("without-a-host-"))))
	}, NodeTimeout(4*creation))

	It("serves from a host that joins the pool, and no longer from one that leaves it (A3)", func(ctx SpecContext) {
		before := t.snapshot(ctx)
		node := addHostNode(ctx)
		t.expectHealthy(ctx)
		t.expectServedBy(ctx, env.hostNodes(ctx))
		for pod, was := range before {
			Expect(t.snapshot(ctx)).To(HaveKeyWithValue(pod, was))
		}
		leavePool(ctx, node)
		t.expectHealthy(ctx)
		t.expectServedBy(ctx, env.hostNodes(ctx))
		Expect(t.snapshot(ctx)).To(Equal(before))
	}, NodeTimeout(4*creation))
})

// losePower takes a host's power. It has it again when the spec ends, also when it was taken by halves.
func losePower(ctx context.Context, name string) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) { Expect(env.lab.PowerOn(ctx, name)).To(Succeed()) }, NodeTimeout(join))
	Expect(env.lab.PowerOff(ctx, name)).To(Succeed())
}

// addHostNode adds a host to the lab, and its node to the pool, until the spec ends.
func addHostNode(ctx context.Context) *corev1.Node {
	GinkgoHelper()
	added, err := env.lab.AddHost(ctx, func(step string) { env.log.Print("%s", step) })
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(env.lab.RemoveHost(ctx, added.Name)).To(Succeed()) })
	given := newRelease(todaysTree(), settings.programs)
	given.load(ctx, added.Name) // Pods of etcd have one of its images.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: added.Name}}
	joinPool(ctx, node)
	return node
}

// joinPool puts a node into the pool.
func joinPool(ctx context.Context, node *corev1.Node) {
	GinkgoHelper()
	patch(ctx, node, fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, controlplanev1.HostNodeLabel))
}

// leavePool takes a node out of the pool.
func leavePool(ctx context.Context, node *corev1.Node) {
	GinkgoHelper()
	patch(ctx, node, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, controlplanev1.HostNodeLabel))
}

// each does something with all hosts together.
func each(hosts []*host.Host, do func(*host.Host) error) {
	GinkgoHelper()
	var group sync.WaitGroup
	errs := make([]error, len(hosts))
	for i, h := range hosts {
		group.Go(func() { errs[i] = do(h) })
	}
	group.Wait()
	for i, err := range errs {
		Expect(err).NotTo(HaveOccurred(), hosts[i].Name)
	}
}

// ask asks every API server of the tenant without a pause, from where a host stands.
func (t *tenant) ask(ctx context.Context, from string) *requests.Client {
	GinkgoHelper()
	at := labHost(from)
	var addresses []string
	for _, node := range env.hostNodes(ctx) {
		addresses = append(addresses, address(internalIP(&node), t.ports(ctx).APIServer))
	}
	client, err := requests.Start(ctx, requests.Options{
		Config: t.access, Addresses: addresses, Namespace: testNamespace, Pause: 200 * time.Millisecond, Dial: at.Dial,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { client.Stop() })
	return client
}

// members are the IDs of the members of both etcd clusters, by name.
func (t *tenant) members(ctx context.Context) map[string]uint64 {
	GinkgoHelper()
	members := map[string]uint64{}
	for _, component := range []string{names.EtcdData, names.EtcdEvents} {
		found, err := t.etcd(ctx, component).MemberList(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, member := range found.Members {
			members[member.Name] = member.ID
		}
	}
	return members
}

// expectServedBy waits until the tenant lists exactly these nodes as addresses of its API, and each of
// them answers.
func (t *tenant) expectServedBy(ctx context.Context, nodes map[string]corev1.Node) {
	GinkgoHelper()
	var want []string
	for _, node := range nodes {
		want = append(want, internalIP(&node))
	}
	slices.Sort(want)
	port := t.ports(ctx).APIServer
	door := t.doors(ctx)[port]
	Eventually(ctx, func(g Gomega) {
		found, err := t.api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
		g.Expect(err).NotTo(HaveOccurred())
		var addresses []string
		for _, slice := range found.Items {
			for _, endpoint := range slice.Endpoints {
				addresses = append(addresses, endpoint.Addresses...)
			}
		}
		slices.Sort(addresses)
		g.Expect(addresses).To(Equal(want))
		for _, host := range want {
			g.Expect(door.answer(ctx, address(host, port)).Status).To(Equal(200), host)
		}
	}).WithTimeout(creation).Should(Succeed())
}
