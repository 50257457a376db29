//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/loadbalancer"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/readiness"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

// building bounds the first build of kubeadm and of its provider.
const building = 20 * time.Minute

// kubeletUnit and kubeletDropIn are what packages of kubelet and kubeadm bring
// (https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/kubelet-integration/).
const (
	unitFolder  = "/usr/local/lib/systemd/system/"
	kubeletUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/local/bin/kubelet
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
`
	kubeletDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`
)

// labMachine is what the template does not say of the lab's machines: they have cgroups of version 1 without
// systemd's care, and share a kernel whose configuration and settings kubeadm would complain of. They share its disk, too, and
// nobody's pods are to be evicted because that is rather full.
const labMachine = `{"spec":{"template":{"spec":{"joinConfiguration":{"nodeRegistration":{
	"ignorePreflightErrors":["SystemVerification","Swap","FileContent--proc-sys-net-ipv4-ip_forward"],
	"kubeletExtraArgs":[{"name":"cgroup-driver","value":"cgroupfs"},{"name":"fail-cgroupv1","value":"false"},
		{"name":"eviction-hard","value":"memory.available<100Mi,nodefs.available<500Mi,nodefs.inodesFree<1%,imagefs.available<500Mi"},{"name":"image-gc-high-threshold","value":"100"}]}}}}}}`

var _ = Describe("Workers that kubeadm joins", Ordered, Label(full, onWorkers, byKubeadm), func() {
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	t := newTenant("kubeadm", "v1.36.3", variables)
	t.template = &settings.kubeadmTemplate
	var worker *host.Host
	var built *artifacts.Kubeadm

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		built = installKubeadm(ctx)
		removeWithHosts(t)

		t.create(ctx)
		patch(ctx, t.kubeadmConfigTemplate(), labMachine)
		pool := &workers.Pool{
			Lab: env.lab, Client: env.client, Namespace: t.Namespace, Log: env.log,
			Programs: []string{filepath.Join(settings.programs, "kok-apiserver-lb")},
		}
		hosts, err := pool.Ensure(ctx, 1)
		Expect(err).NotTo(HaveOccurred())
		for _, name := range hosts {
			prepareForKubeadm(labHost(name), built.Program)
		}
		Expect(loadWorkerImages(ctx, hosts...)).To(Succeed())
		Expect(t.quickstart().InstallNetwork(ctx, env.network)).To(Succeed())
	}, NodeTimeout(building+2*creation+join))

	It("join through their own load balancer", func(ctx SpecContext) {
		t.workers = 1
		t.scale(ctx, t.workers)
		q := t.quickstart()
		Expect(q.WaitWorkers(ctx)).To(Succeed())
		Expect(q.Hello(ctx)).To(Succeed())
		t.expectWorkers(ctx, t.workers)

		machines := t.machines(ctx)
		Expect(machines[0].Spec.Bootstrap.ConfigRef.Kind).To(Equal("KubeadmConfig"))
		worker = labHost(t.hostOf(ctx, machines[0]))
		content, err := worker.Exec(ctx, nil, "cat", onworker.Kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		kubelet, err := clientcmd.Load(content)
		Expect(err).NotTo(HaveOccurred())
		Expect(kubelet.Clusters).NotTo(BeEmpty())
		for name, cluster := range kubelet.Clusters {
			Expect(cluster.Server).To(Equal("https://"+configuration.DefaultListenAddress), name)
		}
	}, SpecTimeout(2*join))

	It("have serving certificates of the tenant's CA", func(ctx SpecContext) {
		requests, err := t.api.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=kubernetes.io/kubelet-serving"})
		Expect(err).NotTo(HaveOccurred())
		Expect(requests.Items).NotTo(BeEmpty())
		for _, request := range requests.Items {
			Expect(request.Status.Certificate).NotTo(BeEmpty(), request.Name)
		}
	})

	It("know every API server", func(ctx SpecContext) {
		var all []string
		for _, node := range env.hostNodes(ctx) {
			all = append(all, address(internalIP(&node), t.ports(ctx).APIServer))
		}
		config, err := configuration.Parse(t.secret(ctx, names.LoadBalancer(t.Name)).Data[loadbalancer.Key])
		Expect(err).NotTo(HaveOccurred())
		Expect(config.SeedBackends).To(ConsistOf(all))
		t.expectBalances(ctx, worker)
	})

	It("stay ready while one API server after the other is killed", func(ctx SpecContext) {
		t.killAPIServers(ctx, func() {
			t.expectBalances(ctx, worker)
			t.expectWorkers(ctx, t.workers)
		})
	}, SpecTimeout(4*creation))

	It("get certificates by the new cluster CA when it rotates, and stay ready", func(ctx SpecContext) {
		former := t.formerCA(ctx, pki.CACert, pki.CAKey)
		byAttacker, err := former.Client("attacker", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		tries := func() []try {
			return at(append(t.servers(ctx), kubeletOf(ctx, worker)), certificate("who has the key of the former CA", byAttacker))
		}
		expectTaken(ctx, tries())
		nodes, err := readiness.Watch(ctx, t.api, clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())

		patch(ctx, t.controlPlane(ctx), fmt.Sprintf(`{"spec":{"keyRotation":{"kinds":[%q],"prepareAfter":%q}}}`, controlplanev1.ClusterCAKind, time.Now().UTC().Format(time.RFC3339)))
		t.expectKeys(ctx, conditionsv1.KeysPreparedReason)
		for _, file := range []string{"kubelet-client-current.pem", "kubelet-server-current.pem"} {
			Expect(signed(ctx, former, worker, file)).To(BeFalse(), "the former CA signed %s of %s", file, worker.Name)
		}
		expectTaken(ctx, tries())
		t.expectLogs(ctx)
		notReady := nodes.NotReady()

		t.connect(ctx)
		nodes, err = readiness.Watch(ctx, t.api, clock.RealClock{})
		Expect(err).NotTo(HaveOccurred())
		t.restartPods(ctx)
		t.dropFormerKeys(ctx)
		t.expectKeys(ctx, conditionsv1.KeysNotRotatingReason)
		over := time.Now()
		t.connect(ctx)
		taken := takenAfter(ctx, over, tries())
		figure("kubeadm_old_credentials_accepted_after", taken, "certificates by the former CA")
		Expect(taken).To(BeZero(), "certificates by the former CA that are taken")
		t.expectLogs(ctx)
		t.expectWorkers(ctx, t.workers)
		Expect(notReady+nodes.NotReady()).To(BeZero(), "a Node was not ready for a while")
	}, SpecTimeout(2*creation+2*join+3*rotating))

	It("are InUse as hosts of those who do not know their cluster, and nothing on them changes", Label(foreignHosts), func(ctx SpecContext) {
		h := t.joinByHand(ctx, built)
		before := settledState(ctx, h, stateOf)
		others := newTenant("kubeadm-others", t.version, nil)
		others.remove(ctx)
		Expect(env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: others.Namespace}})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { others.remove(ctx) }, NodeTimeout(creation))
		pool := &workers.Pool{Lab: env.lab, Client: env.client, Namespace: others.Namespace, Owner: joinedByHand, Log: env.log}
		Expect(pool.Ensure(ctx, 1)).To(Equal([]string{h.Name}))

		fact := "kubelet runs, and " + onworker.Kubeconfig + " leads to https://" + configuration.DefaultListenAddress
		expectInUse(ctx, client.ObjectKey{Namespace: others.Namespace, Name: h.Name}, fact, fmt.Sprintf("set its spec.takeOver to %q if this machine may be wiped", fact))
		others.expectNoClaim(ctx)
		changed := 0
		if hasChanged(ctx, h, before) {
			changed++
		}
		figure("foreign_hosts_changed", changed, "hosts, of one that kubeadm joined")
		Expect(changed).To(BeZero(), "hosts that were changed")
		t.expectNodeWorks(ctx, nodeName(ctx, h))
	}, SpecTimeout(3*join+creation+noticed))

	It("go with their Cluster, and leave clean hosts", func(ctx SpecContext) {
		t.delete(ctx)
		hosts := t.hosts(ctx)
		Expect(hosts).NotTo(BeEmpty())
		for i := range hosts {
			expectClean(ctx, &hosts[i])
		}
		left, _ := worker.Exec(ctx, nil, "find", "/etc/hostname", "/etc/systemd/system/kok-apiserver-lb.service", "/run/kubeadm", "/run/cluster-api", "-not", "-type", "d")
		Expect(string(left)).To(Equal("/etc/hostname\n"), "what is left of the bootstrap on %s", worker.Name)
	}, SpecTimeout(2*join))
})

// installKubeadm builds what goes by kubeadm and installs Cluster API's provider, until the end of the specs.
func installKubeadm(ctx context.Context) *artifacts.Kubeadm {
	GinkgoHelper()
	cache, err := artifacts.CacheDir()
	Expect(err).NotTo(HaveOccurred())
	built, err := artifacts.EnsureKubeadm(ctx, cache, func(step string) { env.log.Print("%s", step) })
	Expect(err).NotTo(HaveOccurred())
	installer := &providers.Installer{
		Client: env.client, Kubeconfig: env.proxy.GetKubeconfigPath(), Clusterctl: env.clusterctl, Repository: settings.repository,
		Version: built.ClusterAPI, CoreVersion: built.ClusterAPI, Log: env.log,
		Providers: []providers.Provider{providers.Kubeadm(built.Bootstrap, built.BootstrapImage.Name)},
		Load:      func(ctx context.Context, _, _ string) error { return env.lab.LoadBuilt(ctx, built.BootstrapImage) },
	}
	DeferCleanup(func(ctx SpecContext) {
		if settings.keep {
			return
		}
		Expect(env.run(ctx, env.clusterctl, "delete", "--config", clusterctlConfig(), "--bootstrap", "kubeadm", "--include-crd", "--include-namespace")).To(Succeed())
	}, NodeTimeout(creation))
	Expect(installer.Install(ctx)).To(Succeed())
	return built
}

// prepareForKubeadm makes a machine what kubeadm's documentation asks for.
func prepareForKubeadm(h *host.Host, kubeadm string) {
	GinkgoHelper()
	program, err := os.ReadFile(kubeadm)
	Expect(err).NotTo(HaveOccurred())
	Expect(h.WriteFile("/usr/local/bin/kubeadm", program, 0o755)).To(Succeed())
	Expect(h.WriteFile(unitFolder+"kubelet.service", []byte(kubeletUnit), 0o644)).To(Succeed())
	Expect(h.WriteFile(unitFolder+"kubelet.service.d/10-kubeadm.conf", []byte(kubeletDropIn), 0o644)).To(Succeed())
}

func (t *tenant) kubeadmConfigTemplate() *unstructured.Unstructured {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(schema.GroupVersionKind{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfigTemplate"})
	template.SetNamespace(t.Namespace)
	template.SetName(t.Name + "-workers")
	return template
}
