//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	quickstart "github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// What kubeadm leaves on a node, with the paths that it has there. Nobody listens at the server, a proxy on the node that
// is down: the kubelet goes on with its static pod. kubeadm_test.go has a node that the real kubeadm joined.
const (
	theirServer     = "https://127.0.0.1:7443"
	theirKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: theirs
  cluster:
    server: ` + theirServer + `
contexts:
- name: theirs
  context: {cluster: theirs, user: theirs}
current-context: theirs
users:
- name: theirs
  user: {token: theirs}
`
	theirSettings = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
staticPodPath: /etc/kubernetes/manifests
# The lab's hosts share the machine's disk and memory, and may have cgroups of version 1 alone.
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 500Mi, nodefs.inodesFree: 1%, imagefs.available: 500Mi}
oomScoreAdj: 0
`
	theirPod = `apiVersion: v1
kind: Pod
metadata: {name: theirs, namespace: kube-system}
spec:
  hostNetwork: true
  containers:
  - name: hello
    image: ` + quickstart.HelloImage + `
    imagePullPolicy: Never
    args: [serve, "127.0.0.1:8099"]
`
	theirUnit = `[Unit]
Description=kubelet of a cluster that nobody here knows
After=containerd.service

[Service]
ExecStart=/usr/local/bin/kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf --hostname-override=theirs
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
`
	theirFact = "kubelet runs, and /etc/kubernetes/kubelet.conf leads to " + theirServer
)

// Two IDCHosts lead to machines that work for somebody: a node of the host cluster, and one of a cluster that nobody here
// knows. Only what a person gives away is changed.
var _ = Describe("A host that is somebody's", Ordered, Label(full, onWorkers, foreignHosts), func() {
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	w := &onlyWorker{tenant: newTenant("foreign-hosts", "v1.36.3", variables)}
	w.workers = 1
	node := &infrav1.IDCHost{}
	var nodeFact string
	// before is what each of the two was like.
	before := map[string]map[string]string{}

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(w.tenant)
		w.prepare(ctx)
		Expect(env.lab.LoadProgram(ctx, quickstart.HelloImage, filepath.Join(settings.programs, "hello"), w.worker.Name)).To(Succeed())
		added := addHostNode(ctx)
		patch(ctx, added, `{"spec":{"unschedulable":true}}`) // Its pods are to be the same before and after.
		access, err := env.lab.LetIn(ctx, added.Name)
		Expect(err).NotTo(HaveOccurred())
		nodeFact = fmt.Sprintf("kubelet runs, and the host cluster's Node %s has the address %s", added.Name, access.Address)
		node.ObjectMeta = metav1.ObjectMeta{Namespace: w.Namespace, Name: added.Name}
		node.Spec.SSHServer = infrav1.SSHServer{
			Address: access.Address, Port: 22, User: access.User,
			KeySecretRef: infrav1.SecretReference{Name: workers.KeySecret}, HostKeys: []string{access.HostKey},
		}
		node.Spec.FailureDomain = host.SiteIDC
		w.becomeTheirs(ctx)
		for _, h := range []*host.Host{w.worker, labHost(added.Name)} {
			before[h.Name] = settledState(ctx, h, stateOf)
		}
	}, NodeTimeout(3*creation+join))

	// compare looks for what is another than before, and notes the hosts of which something is.
	changed := map[string]bool{}
	compare := func(ctx context.Context, hosts ...string) {
		GinkgoHelper()
		for _, name := range hosts {
			if hasChanged(ctx, labHost(name), before[name]) {
				changed[name] = true
			}
		}
	}
	expectUnchanged := func(ctx context.Context, hosts ...string) {
		GinkgoHelper()
		compare(ctx, hosts...)
		Expect(changed).To(BeEmpty(), "hosts that were changed")
	}

	It("is InUse as soon as it is known, and no machine claims it", func(ctx SpecContext) {
		// The status of the one says Free for up to a minute more.
		Expect(env.client.Create(ctx, node)).To(Succeed())
		w.scale(ctx, 1)
		expectInUse(ctx, w.host, theirFact, fmt.Sprintf("set its spec.takeOver to %q if this machine may be wiped, or else delete the IDCHost", theirFact))
		expectInUse(ctx, client.ObjectKeyFromObject(node), nodeFact, fmt.Sprintf("set its spec.takeOver to %q if this machine may be wiped", nodeFact))
		w.expectWaiting(ctx, infrav1.HostClaimedCondition, infrav1.NoHostReason,
			"none of the 2 IDCHosts in namespace "+w.Namespace, "2 in use by others, see their conditions", "is in use: kubelet runs, and ")
		w.expectNoClaim(ctx)
		expectUnchanged(ctx, w.host.Name, node.Name)
	}, SpecTimeout(2*noticed+2*join))

	It("is not given away by the fact of another one", func(ctx SpecContext) {
		w.takeOver(ctx, w.host, nodeFact)
		w.takeOver(ctx, client.ObjectKeyFromObject(node), theirFact)
		expectInUse(ctx, w.host, theirFact, fmt.Sprintf("set its spec.takeOver, which is %q, to %q", nodeFact, theirFact))
		expectInUse(ctx, client.ObjectKeyFromObject(node), nodeFact, fmt.Sprintf("set its spec.takeOver, which is %q, to %q", theirFact, nodeFact))
		w.expectNoClaim(ctx)
		compare(ctx, w.host.Name, node.Name)
		figure("foreign_hosts_changed", len(changed), "hosts")
		Expect(changed).To(BeEmpty(), "hosts that were changed")
	}, SpecTimeout(2*noticed))

	It("is wiped and made a worker when its own fact is repeated, and the other one is not", func(ctx SpecContext) {
		w.takeOver(ctx, w.host, theirFact)
		Eventually(ctx, func(g Gomega) {
			machines := w.machines(ctx)
			g.Expect(machines).To(HaveLen(1))
			g.Expect(machines[0].Status.NodeRef.IsDefined()).To(BeTrue(), "it has no Node yet")
		}).WithTimeout(join).Should(Succeed())
		expectUnchanged(ctx, node.Name)
		Expect(env.client.Delete(ctx, node)).To(Succeed())
		w.expectWorkers(ctx, 1)
		w.expectClaimedBy(ctx, w.machines(ctx)[0].Name)
		content, err := w.worker.Exec(ctx, nil, "cat", "/etc/kubernetes/kubelet.conf")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).NotTo(ContainSubstring(theirServer))
		Expect(string(content)).NotTo(BeEmpty())
		Expect(stateOf(ctx, w.worker)["containers"]).NotTo(Or(BeEmpty(), Equal(before[w.worker.Name]["containers"])))
		left, _ := w.worker.Exec(ctx, nil, "find", "/etc/kubernetes/manifests", "-type", "f")
		Expect(string(left)).To(BeEmpty(), "static pods of the former node")
	}, SpecTimeout(3*join))

	It("is clean and free when its machine goes, with the fact still in its spec", func(ctx SpecContext) {
		w.scale(ctx, 0)
		w.expectWorkers(ctx, 0)
		free := &infrav1.IDCHost{}
		get(ctx, w.host, free)
		Expect(free.Spec.TakeOver).To(Equal(theirFact))
		expectClean(ctx, free)
	}, SpecTimeout(2*join))
})

// becomeTheirs makes the worker a node of somebody's cluster.
func (w *onlyWorker) becomeTheirs(ctx context.Context) {
	GinkgoHelper()
	for path, content := range map[string]string{
		unitFolder + "kubelet.service":          theirUnit,
		"/etc/kubernetes/kubelet.conf":          theirKubeconfig,
		"/etc/kubernetes/manifests/theirs.yaml": theirPod,
		"/var/lib/kubelet/config.yaml":          theirSettings,
	} {
		Expect(w.worker.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	w.exec(ctx, "systemctl", "daemon-reload")
	w.exec(ctx, "systemctl", "enable", "--now", "kubelet.service")
	Eventually(ctx, func(g Gomega) {
		tasks, err := w.worker.Exec(ctx, nil, "ctr", "--namespace", "k8s.io", "tasks", "list", "--quiet")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.Fields(string(tasks))).To(HaveLen(2), "the static pod's containers")
	}).WithTimeout(2 * time.Minute).Should(Succeed())
}

func (w *onlyWorker) takeOver(ctx context.Context, key client.ObjectKey, fact string) {
	GinkgoHelper()
	patch(ctx, &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, fmt.Sprintf(`{"spec":{"takeOver":%q}}`, fact))
}

// expectInUse waits until the host's condition names the fact and the way out.
func expectInUse(ctx context.Context, key client.ObjectKey, fact, way string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		known := &infrav1.IDCHost{}
		g.Expect(env.client.Get(ctx, key, known)).To(Succeed())
		expectFalse(g, known, infrav1.HealthyCondition, infrav1.InUseReason, "IDCHost "+key.Name+" is in use: "+fact, way)
		expectFalse(g, known, infrav1.AvailableCondition, infrav1.NotHealthyReason, "see condition "+infrav1.HealthyCondition)
	}).WithTimeout(noticed).Should(Succeed(), "IDCHost %s", key)
}

// expectNoClaim expects that nobody has any of the hosts for a while in which they are asked again.
func (t *tenant) expectNoClaim(ctx context.Context) {
	GinkgoHelper()
	Consistently(ctx, func(g Gomega) {
		for _, known := range t.hosts(ctx) {
			g.Expect(known.Spec.Claim).To(BeNil(), known.Name)
			g.Expect(known.Spec.Quarantine).To(BeNil(), known.Name)
			g.Expect(known.Finalizers).To(BeEmpty(), known.Name)
		}
	}).WithTimeout(40 * time.Second).WithPolling(time.Second).Should(Succeed())
}

// stateOf is what a host is like that nobody works on: its files, units, containers and what else a bootstrap or a
// clean-up would change.
func stateOf(ctx context.Context, h *host.Host) map[string]string {
	GinkgoHelper()
	look := func(argv ...string) string {
		output, err := h.Exec(ctx, nil, argv...)
		// find ends with an error for each path that is not there.
		if argv[0] != "find" {
			Expect(err).NotTo(HaveOccurred(), "%q on %s", argv, h.Name)
		}
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	state := map[string]string{
		"files": look("find", "/etc", "/usr/local", "/opt", "/root", "/home", "/var/lib/cloud", "/var/lib/cni", "/var/lib/kok-infrastructure",
			"/run/systemd/system", "/run/cluster-api", "/run/cloud-init", "-printf", `%p %y %m %U:%G %s %T@\n`),
		"kubelet's folders": look("find", "/var/lib/kubelet", "-maxdepth", "2", "-printf", `%p %y %m\n`),
		"unit files":        look("systemctl", "list-unit-files", "--no-legend", "--no-pager"),
		"units": look("systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState,MainPID,NRestarts", "--",
			"kubelet.service", "containerd.service", "kube-proxy.service", "ssh.service", "kok-cloud-init.service", "kok-bootstrap.service", "kok-apiserver-lb.service"),
		"containers": look("ctr", "--namespace", "k8s.io", "tasks", "list"),
		"images":     look("ctr", "--namespace", "k8s.io", "images", "list", "--quiet"),
		"users":      look("getent", "passwd"),
		"name":       look("uname", "-n"),
		"links":      look("ip", "-brief", "link"),
		"tables":     look("nft", "list", "tables"),
	}
	Expect(state["files"]).To(ContainSubstring("/etc/hostname "), h.Name)
	return state
}

// hasChanged reports whether anything of a host is another than before, and says what.
func hasChanged(ctx context.Context, h *host.Host, before map[string]string) (changed bool) {
	GinkgoHelper()
	for what, after := range stateOf(ctx, h) {
		if after != before[what] {
			changed = true
			env.log.Print("%s of %s were\n%s\nand are\n%s", what, h.Name, before[what], after)
		}
	}
	return changed
}

// settledState is the state of a host once it stays as it is.
func settledState(ctx context.Context, h *host.Host, stateOf func(context.Context, *host.Host) map[string]string) map[string]string {
	GinkgoHelper()
	last := map[string]string{}
	Eventually(ctx, func() bool {
		before := last
		last = stateOf(ctx, h)
		return fmt.Sprint(before) == fmt.Sprint(last)
	}).WithTimeout(3*time.Minute).WithPolling(10*time.Second).Should(BeTrue(), "%s changes by itself", h.Name)
	return last
}
