//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
	quickstart "github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
)

// join bounds what a worker takes to join or to be cleaned: ten times what is usual.
const join = 6 * time.Minute

// orphaned bounds how long a Node stays whose Machine is gone: five minutes of silence, then the next look after ten.
const orphaned = 20 * time.Minute

// The life of workers: one more host than machines stands in the data centre.
var _ = Describe("Workers of a tenant", Ordered, Label(onWorkers), func() {
	variables := single()
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	t := newTenant("workers", "v1.36.3", variables)
	t.workers = 2

	BeforeAll(func() {
		requireLab()
		removeWithHosts(t)
	})

	It("join a tenant, and reach Services by their names", Label(gating, full), func(ctx SpecContext) {
		t.createWithWorkers(ctx, 1)
	}, SpecTimeout(2*creation+join))

	It("notice nothing when an API server is killed", Label(gating, full), func(ctx SpecContext) {
		worker := t.worker(ctx)
		requests, err := t.quickstart().KillAPIServer(ctx, quickstart.Worker{Name: worker.Name, Dial: worker.Dial})
		Expect(err).NotTo(HaveOccurred())
		Expect(requests.Attempts()).To(BeNumerically(">", 20))
		Expect(requests.Failures(0, load.Forever)).To(BeEmpty())
	}, SpecTimeout(join))

	servesAnAdmin(t)

	It("leave no bootstrap token behind, and no right that nodes need not have", Label(gating, full), func(ctx SpecContext) {
		Eventually(ctx, func(g Gomega) {
			secrets, err := t.api.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "type=bootstrap.kubernetes.io/token"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(secrets.Items).To(BeEmpty())
		}).WithTimeout(join).Should(Succeed())
		// A kubelet answers the API server alone, with a certificate of the tenant's CA.
		requests, err := t.api.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=kubernetes.io/kubelet-serving"})
		Expect(err).NotTo(HaveOccurred())
		Expect(requests.Items).NotTo(BeEmpty())
		for _, request := range requests.Items {
			Expect(request.Status.Certificate).NotTo(BeEmpty(), request.Name)
		}
		t.expectRights(ctx, t.machines(ctx)[0].Status.NodeRef.Name)
	})

	// It finds the rules of the one before.
	It("reach Services when kube-proxy started again", Label(full), func(ctx SpecContext) {
		proxies := t.api.CoreV1().Pods(metav1.NamespaceSystem)
		of := metav1.ListOptions{LabelSelector: "k8s-app=kube-proxy"}
		before, err := proxies.List(ctx, of)
		Expect(err).NotTo(HaveOccurred())
		former := map[types.UID]bool{}
		for i := range before.Items {
			former[before.Items[i].UID] = true
		}
		Expect(former).To(HaveLen(t.workers))
		Expect(proxies.DeleteCollection(ctx, metav1.DeleteOptions{}, of)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			now, err := proxies.List(ctx, of)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Items).To(HaveLen(t.workers))
			for i := range now.Items {
				g.Expect(former).NotTo(HaveKey(now.Items[i].UID))
				g.Expect(now.Items[i].Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue))))
			}
		}).Should(Succeed())
		Expect(t.quickstart().Hello(ctx)).To(Succeed())
	}, SpecTimeout(creation))

	It("are fewer and more as a MachineDeployment says, and hosts are used again", Label(full), func(ctx SpecContext) {
		t.scale(ctx, 1)
		t.expectWorkers(ctx, 1)
		began := time.Now()
		t.scale(ctx, 3)
		t.expectWorkers(ctx, 3)
		figure("join_2_more_seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()), "s")
		t.scale(ctx, t.workers)
		t.expectWorkers(ctx, t.workers)
	}, SpecTimeout(4*join))

	It("are replaced one by one when their configuration is another", Label(full), func(ctx SpecContext) {
		before := t.machines(ctx)
		template := &bootstrapv1.KOKConfigTemplate{}
		get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Name + "-workers"}, template)
		next := &bootstrapv1.KOKConfigTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name + "-workers-2"}, Spec: *template.Spec.DeepCopy(),
		}
		next.Spec.Template.Spec.Kubelet.NodeLabels = map[string]string{"example.com/generation": "2"}
		next.Spec.Template.Spec.Users = usersOfAMachine(t.hosts(ctx)[0].Spec.User)
		Expect(env.client.Create(ctx, next)).To(Succeed())
		patch(ctx, t.machineDeployment(), fmt.Sprintf(`{"spec":{"template":{"spec":{"bootstrap":{"configRef":{"name":%q}}}}}}`, next.Name))
		Eventually(ctx, func(g Gomega) {
			nodes, err := t.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "example.com/generation=2"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(nodes.Items).To(HaveLen(t.workers))
		}).WithTimeout(2 * join).Should(Succeed())
		t.expectWorkers(ctx, t.workers)
		for _, machine := range before {
			Expect(t.machines(ctx)).NotTo(ContainElement(HaveField("Name", machine.Name)))
		}
	}, SpecTimeout(4*join))

	It("come back after a reboot while the cloud is away", Label(full), func(ctx SpecContext) {
		node := t.machines(ctx)[0].Status.NodeRef.Name
		worker := t.worker(ctx)
		Expect(env.lab.Cut(ctx)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(env.lab.Heal(ctx)).To(Succeed()) })
		Expect(env.lab.PowerOff(ctx, worker.Name)).To(Succeed())
		Expect(env.lab.PowerOn(ctx, worker.Name)).To(Succeed())
		booted := time.Now()
		// The worker's own load balancer is the way in: the endpoint's way leads through the cloud.
		Eventually(ctx, func(g Gomega) {
			answer, err := worker.Exec(ctx, nil, "kubectl", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--request-timeout=5s",
				"--namespace="+corev1.NamespaceNodeLease, "get", "lease", node, "--output=json")
			g.Expect(err).NotTo(HaveOccurred())
			lease := &coordinationv1.Lease{}
			g.Expect(json.Unmarshal(answer, lease)).To(Succeed())
			g.Expect(renewed(lease)).To(BeTemporally(">", booted))
		}).WithTimeout(join).Should(Succeed(), "the lease of %s", node)
		env.log.Print("%s renewed its lease %.1f s after the boot, without the cloud", node, time.Since(booted).Seconds())
		Expect(env.lab.Heal(ctx)).To(Succeed())
		t.expectHealthy(ctx)
		t.expectWorkers(ctx, t.workers)
	}, SpecTimeout(2*join))

	withoutTheCloud(t)

	It("are replaced when they die, and their hosts come back clean", Label(full), func(ctx SpecContext) {
		check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name}, Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: t.Name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: t.Name}},
			Checks: clusterv1.MachineHealthCheckChecks{
				NodeStartupTimeoutSeconds: ptr.To[int32](600),
				UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
					{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](5)},
				},
			},
		}}
		// Cluster API's own manager may start again after the cut: it lost its lease.
		Eventually(ctx, func() error { return env.client.Create(ctx, check) }).WithTimeout(creation).Should(Succeed())
		dead := t.machines(ctx)[0]
		host := t.hostOf(ctx, dead)
		losePower(ctx, host)
		Eventually(ctx, func(g Gomega) {
			g.Expect(t.machines(ctx)).NotTo(ContainElement(HaveField("Name", dead.Name)), "the dead Machine is not deleted")
		}).WithTimeout(join).Should(Succeed())
		// Cluster API makes another Machine once the dead one is gone, for which its host is given up.
		Eventually(ctx, func() error { return env.client.Get(ctx, client.ObjectKeyFromObject(&dead), &clusterv1.Machine{}) }).WithTimeout(join).
			Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "Machine %s waits for a host without power", dead.Name)
		lost := &infrav1.IDCHost{}
		get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: host}, lost)
		Expect(lost.Spec.Claim).To(BeNil())
		Expect(lost.Spec.Quarantine).To(HaveValue(HaveField("InstanceID", Not(BeEmpty()))), "IDCHost %s is to be cleaned when it is back", host)
		Expect(env.lab.PowerOn(ctx, host)).To(Succeed())
		expectClean(ctx, lost)
		Expect(lost.Spec.Quarantine).To(BeNil())
		// Its kubelet may have registered once more before it was cleaned.
		Eventually(ctx, func() (int, error) {
			nodes, err := t.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			return len(nodes.Items), err
		}).WithTimeout(orphaned).Should(Equal(t.workers), "Nodes")
		t.expectWorkers(ctx, t.workers)
		Expect(env.client.Delete(ctx, check)).To(Succeed())
	}, SpecTimeout(4*join+orphaned))

	It("go with their Cluster, and leave clean hosts, which keep their SSH host keys when they boot", Label(gating, full), func(ctx SpecContext) {
		used := t.hostOf(ctx, t.machines(ctx)[0])
		took := t.delete(ctx)
		figure("delete_with_workers_seconds", fmt.Sprintf("%.1f", took.Seconds()), "s")
		hosts := t.hosts(ctx)
		Expect(hosts).To(HaveLen(t.workers + 1))
		for i := range hosts {
			expectClean(ctx, &hosts[i])
		}
		expectSameKeysAfterBoot(ctx, used)
	}, SpecTimeout(2*join))
})

// expectSameKeysAfterBoot switches a clean host off and on: its own cloud-init must know its instance again.
func expectSameKeysAfterBoot(ctx context.Context, name string) {
	GinkgoHelper()
	h := labHost(name)
	keys := func() string {
		content, err := h.Exec(ctx, nil, "find", "/etc/ssh", "-name", "ssh_host_*.pub", "-exec", "cat", "{}", "+")
		Expect(err).NotTo(HaveOccurred())
		return string(content)
	}
	before := keys()
	Expect(before).NotTo(BeEmpty())
	Expect(env.lab.PowerOff(ctx, name)).To(Succeed())
	Expect(env.lab.PowerOn(ctx, name)).To(Succeed())
	_, _ = h.Exec(ctx, nil, "cloud-init", "status", "--wait") // Its exit status is how it went, which does not matter here.
	Expect(keys()).To(Equal(before), "SSH host keys of %s", name)
}

// removeWithHosts removes tenants when the specs of their container are over, and the hosts that were added since.
func removeWithHosts(tenants ...*tenant) {
	GinkgoHelper()
	former, err := env.lab.Hosts()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		if settings.keep {
			return
		}
		for _, t := range tenants {
			t.remove(ctx)
		}
		added, err := env.lab.WorkersSince(former)
		Expect(err).NotTo(HaveOccurred())
		for _, h := range added {
			Expect(env.lab.RemoveHost(ctx, h.Name)).To(Succeed())
		}
	}, NodeTimeout(time.Duration(2*len(tenants))*join))
}

func renewed(lease *coordinationv1.Lease) time.Time {
	return ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
}

func (t *tenant) machineDeployment() *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name + "-workers"}}
}

func (t *tenant) scale(ctx context.Context, replicas int) {
	GinkgoHelper()
	patch(ctx, t.machineDeployment(), fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// machines are the tenant's Machines that are not being deleted.
func (t *tenant) machines(ctx context.Context) []clusterv1.Machine {
	GinkgoHelper()
	list := &clusterv1.MachineList{}
	listAll(ctx, list, client.InNamespace(t.Namespace))
	var machines []clusterv1.Machine
	for _, machine := range list.Items {
		if machine.DeletionTimestamp.IsZero() {
			machines = append(machines, machine)
		}
	}
	return machines
}

func (t *tenant) hosts(ctx context.Context) []infrav1.IDCHost {
	GinkgoHelper()
	list := &infrav1.IDCHostList{}
	listAll(ctx, list, client.InNamespace(t.Namespace))
	return list.Items
}

// hostOf is the name of the host that a Machine has.
func (t *tenant) hostOf(ctx context.Context, machine clusterv1.Machine) string {
	GinkgoHelper()
	for _, host := range t.hosts(ctx) {
		if host.Spec.Claim != nil && host.Spec.Claim.Name == machine.Spec.InfrastructureRef.Name {
			return host.Name
		}
	}
	Fail("no host is claimed by " + machine.Name)
	return ""
}

// worker is the host of the tenant's first Machine.
func (t *tenant) worker(ctx context.Context) *host.Host {
	GinkgoHelper()
	return labHost(t.hostOf(ctx, t.machines(ctx)[0]))
}

func labHost(name string) *host.Host {
	GinkgoHelper()
	h, err := env.lab.Host(name)
	Expect(err).NotTo(HaveOccurred())
	return h
}

// killAPIServers kills one API server after the other. The first worker's Node is ready all the time, also until what
// is expected afterwards is so.
func (t *tenant) killAPIServers(ctx context.Context, afterwards func()) {
	GinkgoHelper()
	node := t.machines(ctx)[0].Status.NodeRef.Name
	since := t.readySince(ctx, node)
	pods, err := t.pods(ctx, names.KubeAPIServer)
	Expect(err).NotTo(HaveOccurred())
	for i := range pods {
		Expect(t.quickstart().Kill(ctx, &pods[i])).To(Succeed())
	}
	t.expectHealthy(ctx)
	afterwards()
	Expect(t.readySince(ctx, node)).To(Equal(since), "the Node was not ready for a while")
}

// readySince is when a Node became ready; it fails for one that is not.
func (t *tenant) readySince(ctx context.Context, name string) time.Time {
	GinkgoHelper()
	var node *corev1.Node
	Eventually(ctx, func() (err error) {
		node, err = t.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	}).Should(Succeed())
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			Expect(condition.Status).To(Equal(corev1.ConditionTrue), condition.Message)
			return condition.LastTransitionTime.Time
		}
	}
	Fail("Node " + name + " does not say whether it is ready")
	return time.Time{}
}

// expectWorkers waits until there are so many Machines and Nodes, all ready, and every other host is free.
func (t *tenant) expectWorkers(ctx context.Context, count int) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		t.haveMachines(ctx, g, env.client, count)
		hosts := t.hosts(ctx)
		free := 0
		for i := range hosts {
			if conditions.IsTrue(&hosts[i], infrav1.AvailableCondition) {
				free++
			}
		}
		g.Expect(free).To(Equal(len(hosts)-count), "free hosts")
	}).WithTimeout(join).Should(Succeed(), "%d workers of %s", count, t.ObjectKey)
}

// haveMachines expects so many Machines of the tenant in a management cluster, all ready, and as many Nodes.
func (t *tenant) haveMachines(ctx context.Context, g Gomega, management client.Client, count int) {
	machines := &clusterv1.MachineList{}
	g.Expect(management.List(ctx, machines, client.InNamespace(t.Namespace))).To(Succeed())
	g.Expect(machines.Items).To(HaveLen(count), "Machines")
	for i := range machines.Items {
		ready := conditions.Get(&machines.Items[i], clusterv1.ReadyCondition)
		g.Expect(ready).NotTo(BeNil())
		g.Expect(ready.Status).To(Equal(metav1.ConditionTrue), "%s: %s", machines.Items[i].Name, ready.Message)
	}
	nodes, err := t.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(nodes.Items).To(HaveLen(count), "Nodes")
}
