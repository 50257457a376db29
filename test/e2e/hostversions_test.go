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
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	supported "github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/audit"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/journal"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
)

const (
	// draining bounds the drain of a node of the host cluster and what it takes until its tenants are whole again.
	draining = 10*time.Minute + creation
	// hostUpgrading bounds the upgrade of the host cluster: its control plane, and four nodes.
	hostUpgrading = creation + 4*draining
)

// The same life of a tenant on each version of the host cluster: its own version may be newer or older.
var _ = Describe("A host cluster of a supported version", Ordered, Label(hostVersions), func() {
	const before, after = "v1.35.4", "v1.36.3"
	t := newTenant("host-versions", before, map[string]string{"KUBE_PROXY_CONNTRACK": "None"})
	t.workers = 2

	BeforeAll(func() {
		requireLab()
		removeWithHosts(t)
	})

	It("is of that version, control plane and nodes", func(ctx SpecContext) {
		version, err := env.lab.HostVersion()
		Expect(err).NotTo(HaveOccurred())
		expectHostCluster(ctx, version)
	}, SpecTimeout(creation))

	It("hosts a tenant with workers, which reach Services by their names", func(ctx SpecContext) {
		t.createOfVersion(ctx)
		t.expectWorkers(ctx, t.workers)
	}, SpecTimeout(building+2*creation+2*join))

	It("upgrades the tenant by a minor, which fails no request and loses no write", func(ctx SpecContext) {
		release, err := supported.BuiltIn().Release(after)
		Expect(err).NotTo(HaveOccurred())
		t.upgradeTo(ctx, after, release.Etcd, t.worker(ctx))
		t.expectWorkers(ctx, t.workers)
		t.expectKubelets(ctx, before)
		Expect(t.quickstart().Hello(ctx)).To(Succeed())
	}, SpecTimeout(upgrade+3*creation+2*join))

	// An older API server may know less of what is applied, and what it drops would be applied for ever.
	It("is not written to by the manager once the tenant has settled", func(ctx SpecContext) {
		user := env.managerUser(ctx)
		written := countWrites(ctx, openAudit(), func(event *auditv1.Event) bool {
			return audit.IsWrite(event) && event.User.Username == user && event.ObjectRef.Resource != "leases"
		})
		Expect(written).To(BeEmpty())
	}, SpecTimeout(creation+(windows+1)*settledTime))

	It("deletes the tenant, and its workers' hosts are clean", func(ctx SpecContext) {
		t.delete(ctx)
		hosts := t.hosts(ctx)
		Expect(hosts).To(HaveLen(t.workers))
		for i := range hosts {
			expectClean(ctx, &hosts[i])
		}
		version, err := env.lab.HostVersion()
		Expect(err).NotTo(HaveOccurred())
		figure("host_clusters_tested", 1, "of Kubernetes "+version)
	}, SpecTimeout(2*join))
})

// People upgrade their host cluster under tenants that know nothing of it.
var _ = Describe("An upgrade of the host cluster itself", Ordered, Label(hostUpgrade), func() {
	versions := artifacts.HostVersions()
	before, after := versions[len(versions)-2], versions[len(versions)-1]
	tenants := []*tenant{
		newTenant("above-newer", after, map[string]string{"KUBE_PROXY_CONNTRACK": "None"}),
		newTenant("above-older", before, map[string]string{"KUBE_PROXY_CONNTRACK": "None"}),
	}
	for _, t := range tenants {
		t.workers = 1
	}

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		Expect(env.lab.HostVersion()).To(Equal(before), "make clean-lab, and give HOST_VERSION=%s", before)
		expectHostCluster(ctx, before)
		removeWithHosts(tenants...)
		DeferCleanup(uncordonAll)
		for _, t := range tenants {
			t.createWithWorkers(ctx, 0)
		}
	}, NodeTimeout(4*creation+2*join))

	It("by a minor, node by node, fails no request of tenants but by moves of etcd's lead, loses no write, and restarts what was drained alone", func(ctx SpecContext) {
		journals, ran, terms := map[*tenant][]*journal.Journal{}, map[*tenant]map[string]running.Pod{}, map[*tenant]uint64{}
		for _, t := range tenants {
			t.expectHealthy(ctx)
			terms[t] = t.term(ctx)
			journals[t], ran[t] = t.startJournals(ctx, "host-upgrade", t.worker(ctx)), t.snapshot(ctx)
		}
		began := time.Now()
		progress := func(step string) { env.log.Print("%s", step) }
		err := env.lab.UpgradeHostCluster(ctx, after, progress, lab.UpgradeSteps{Cordoned: waitReadyToDrain, Done: func(ctx context.Context, node string) error {
			for _, t := range tenants {
				t.expectHealthy(ctx)
				t.expectAllWell(ctx, env.client)
				now := t.snapshot(ctx)
				// API servers are a DaemonSet's, whose pods a drain leaves.
				Expect(running.Undrained(ran[t], now, node, names.KubeAPIServer)).To(BeEmpty(), "what the drain of %q does not explain, in %s", node, t.ObjectKey)
				ran[t] = now
			}
			env.log.Print("tenants are whole again after %q", node)
			return nil
		}})
		took := time.Since(began)
		// The figures are of both tenants, and are told whatever failed.
		ended := &ended{}
		for _, t := range tenants {
			t.end(ctx, "host_upgrade", journals[t], ended)
		}
		ended.tell("host_upgrade")
		Expect(err).NotTo(HaveOccurred())
		elections, moves := uint64(0), 0
		for _, t := range tenants {
			elections, moves = elections+t.term(ctx)-terms[t], moves+t.leadMoves(ctx)
		}
		figure("host_upgrade_elections", elections, fmt.Sprintf("of %d etcds with data; a lead that is moved is one", len(tenants)))
		figure("host_upgrade_lead_moves", moves, "of these, for a host node that was cordoned")
		figure("host_upgrade_seconds", fmt.Sprintf("%.1f", took.Seconds()), "s from "+before+" to "+after)
		expectHostCluster(ctx, after)
		ended.expectEtcdAloneFailed("host_upgrade")
	}, SpecTimeout(hostUpgrading))

	It("leaves tenants that run on, and can be upgraded, scaled and deleted", func(ctx SpecContext) {
		for _, t := range tenants {
			t.expectWorkers(ctx, t.workers)
			Expect(t.quickstart().Hello(ctx)).To(Succeed())
		}
		older := tenants[1]
		release, err := supported.BuiltIn().Release(after)
		Expect(err).NotTo(HaveOccurred())
		patch(ctx, older.controlPlane(ctx), fmt.Sprintf(`{"spec":{"version":%q}}`, after))
		older.expectVersion(ctx, after, release.Etcd)
		older.expectAllWell(ctx, env.client)
		older.scale(ctx, 0)
		older.expectWorkers(ctx, 0)
		older.delete(ctx)
	}, SpecTimeout(upgrade+2*creation+4*join))
})

// leadMoves is how often the manager moved the lead of the data's etcd, by its Events.
func (t *tenant) leadMoves(ctx context.Context) int {
	GinkgoHelper()
	list, moves := &eventsv1.EventList{}, 0
	Expect(env.client.List(ctx, list, client.InNamespace(t.Namespace))).To(Succeed())
	for _, event := range list.Items {
		switch {
		case event.Reason != "EtcdLeaderMoved" || !strings.HasPrefix(event.Note, names.EtcdData+":"):
		case event.Series != nil:
			moves += int(event.Series.Count)
		default:
			moves++
		}
	}
	return moves
}

// uncordonAll has pods come to every node again, also after an upgrade that ended halfway.
func uncordonAll(ctx SpecContext) {
	nodes := &corev1.NodeList{}
	listAll(ctx, nodes)
	for _, node := range nodes.Items {
		uncordon(ctx, node.Name)
	}
}

// waitReadyToDrain waits as docs/upgrading.md says until no etcd leads from a node that is cordoned. kubectl takes it for
// an error when there is none at all on the node.
func waitReadyToDrain(ctx context.Context, node string) error {
	const etcds = names.ManagedByLabel + "=" + names.ManagedBy + "," + names.ComponentLabel + " in (" + names.EtcdData + "," + names.EtcdEvents + ")"
	members, err := env.clientset.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: etcds, FieldSelector: "spec.nodeName=" + node})
	if err != nil || len(members.Items) == 0 {
		return err
	}
	return env.run(ctx, env.kubectl, "wait", "pods", "-A", "-l", etcds, "--field-selector", "spec.nodeName="+node,
		"--for=condition="+controlplanev1.PodReadyToDrain, "--timeout=2m")
}

// expectHostCluster sees to it that the host cluster's API and every node of it are of a version, and that pods may come to all
// nodes.
func expectHostCluster(ctx context.Context, version string) {
	GinkgoHelper()
	var served string
	Eventually(ctx, func() error {
		info, err := env.clientset.Discovery().ServerVersion()
		if err == nil {
			served = info.GitVersion
		}
		return err
	}).Should(Succeed())
	Expect(served).To(Equal(version), "the host cluster's API")
	nodes := &corev1.NodeList{}
	listAll(ctx, nodes)
	Expect(nodes.Items).NotTo(BeEmpty())
	for _, node := range nodes.Items {
		Expect(node.Status.NodeInfo.KubeletVersion).To(Equal(version), "kubelet of node %s", node.Name)
		Expect(node.Spec.Unschedulable).To(BeFalse(), "node %s is cordoned", node.Name)
	}
}
