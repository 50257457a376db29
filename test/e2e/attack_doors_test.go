//go:build e2e

package e2e

import (
	"context"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/attack"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// credentials are all that the attacker has or can make.
func (s *siege) credentials(ctx context.Context) []probe.Credential {
	GinkgoHelper()
	kubelet, err := s.attacker.KubeletClient()
	Expect(err).NotTo(HaveOccurred())
	list := []probe.Credential{{Name: "no credential"}, certificate("the administrator", s.attacked.adminCertificate()), certificate("kubelet", *kubelet)}
	// The tenant's authority signs what its administrator approves, such as a name that etcd would know its client by.
	for _, name := range []string{"kube-apiserver-etcd-client", "kok-control-plane", "system:admin"} {
		made, _, err := s.attacker.SelfApproved(ctx, pkix.Name{CommonName: name})
		Expect(err).NotTo(HaveOccurred())
		list = append(list, certificate("a certificate for "+name, *made))
	}
	return append(list, probe.Bearer("a service account", s.attacked.mightyToken(ctx)), probe.Bearer("konnectivity's agent", s.attacked.agentToken(ctx)))
}

// doors are the ports that a worker's root dials.
func (s *siege) doors(ctx context.Context) []attack.Door {
	GinkgoHelper()
	cloud, secrets := siteHosts()[0].Address.String(), []string{"/", "/metrics", "/api/v1/secrets", "/debug/pprof/"}
	var nodes []string
	for _, node := range env.hostNodes(ctx) {
		nodes = append(nodes, internalIP(&node))
	}
	everywhere := func(hosts []string, wanted ...int32) (list []string) {
		for _, host := range hosts {
			for _, port := range wanted {
				list = append(list, address(host, port))
			}
		}
		return list
	}
	etcdPorts := func(e etcd.Ports) []int32 { return []int32{e.Client, e.Peer, e.Metrics} }
	own := s.attacked.ports(ctx)
	doors := []attack.Door{
		{Target: "the host cluster's API", Addresses: []string{address(cloud, 6443)}, Paths: secrets},
		{Target: "kubelets of host nodes", Addresses: everywhere(append(nodes, cloud), 10250, 10255), Paths: []string{"/pods", "/metrics"}},
		{Target: "the host cluster's etcd", Addresses: everywhere([]string{cloud}, 2379, 2380, 2381), Paths: []string{"/version", "/metrics"}},
		{Target: "etcd of the tenant's own data", Addresses: everywhere(nodes, etcdPorts(etcd.Data.PortsOf(own))...), Paths: []string{"/version", "/members", "/metrics"}},
		{Target: "etcd of the tenant's own events", Addresses: everywhere(nodes, etcdPorts(etcd.Events.PortsOf(own))...), Paths: []string{"/version", "/members", "/metrics"}},
		{Target: "konnectivity's administration of its own", Addresses: everywhere(nodes, own.Number(kubeapiserver.KonnectivityAdmin), own.Number(kubeapiserver.KonnectivityHealth)), Paths: []string{"/metrics", "/debug/pprof/"}},
	}
	for _, t := range s.neighbours {
		block := t.ports(ctx)
		doors = append(doors,
			attack.Door{Target: "the API of " + t.Name, Addresses: everywhere(nodes, block.APIServer), Paths: []string{"/api/v1/secrets", "/metrics"}},
			attack.Door{Target: "etcd of " + t.Name, Addresses: everywhere(nodes, append(etcdPorts(etcd.Data.PortsOf(block)), etcdPorts(etcd.Events.PortsOf(block))...)...), Paths: []string{"/version", "/members", "/metrics"}},
			attack.Door{Target: "kube-controller-manager and kube-scheduler of " + t.Name, Addresses: everywhere(nodes, block.Number(kubecontrollermanager.HTTPS), block.Number(kubescheduler.HTTPS)), Paths: []string{"/metrics", "/configz"}},
			attack.Door{Target: "konnectivity of " + t.Name, Addresses: everywhere(nodes, block.Number(kubeapiserver.KonnectivityAgent), block.Number(kubeapiserver.KonnectivityAdmin), block.Number(kubeapiserver.KonnectivityHealth)), Paths: []string{"/metrics"}},
		)
	}
	for _, key := range ownManagers {
		pod := managerPod(ctx, key)
		doors = append(doors, attack.Door{Target: "the manager " + key.Namespace, Addresses: everywhere([]string{pod.Status.PodIP}, 8443, 9443), Paths: []string{"/metrics", "/debug/pprof/"}})
	}
	return doors
}

func managerPod(ctx context.Context, key client.ObjectKey) *corev1.Pod {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	get(ctx, key, deployment)
	pods := &corev1.PodList{}
	listAll(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))
	Expect(pods.Items).NotTo(BeEmpty(), "pods of %s", key)
	return &pods.Items[0]
}

// dialDoors dials them all, after those that must open.
func (s *siege) dialDoors(ctx context.Context) {
	GinkgoHelper()
	list := s.credentials(ctx)
	own := address(siteHosts()[1].Address.String(), s.attacked.ports(ctx).APIServer)
	var answer probe.Answer
	Expect(s.attacker.Worker.InNetwork(func() error {
		answer = probe.TLS(ctx, own, list[1], "/api/v1/secrets")
		return nil
	})).To(Succeed())
	Expect(answer.Status).To(Equal(200), "the tenant's own API, by its administrator, from the worker: %s", answer)
	s.report.Control("the tenant's own API answers its administrator, from the worker: %s", answer)
	for _, t := range append(s.neighbours, s.attacked) {
		pods, err := t.pods(ctx, "")
		Expect(err).NotTo(HaveOccurred())
		for component, doors := range t.doorsByComponent(ctx) {
			for _, pod := range pods {
				if pod.Labels[names.ComponentLabel] != component {
					continue
				}
				for port, d := range doors {
					answer := d.answer(ctx, address(pod.Status.PodIP, port))
					Expect(answer.Status).To(Equal(200), "%s of %s refuses its own", component, t.ObjectKey)
				}
			}
		}
		s.report.Control("every port of %s lets its own credentials in", t.Name)
	}
	for _, door := range s.doors(ctx) {
		heard := 0
		for _, address := range door.Addresses {
			if isListenedAt(ctx, address) {
				heard++
			}
		}
		Expect(heard).NotTo(BeZero(), "nobody listens at any address of %s", door.Target)
		s.report.Control("%d of %d addresses of %s have a listener, there or at loopback", heard, len(door.Addresses), door.Target)
		Expect(s.attacker.Dial(ctx, s.report, door, list)).To(Succeed())
	}
	s.agents(ctx)
}

// isListenedAt reports whether a host of the site can connect to an address. A listener at the same port of the owner's loopback counts too.
func isListenedAt(ctx context.Context, address string) bool {
	GinkgoHelper()
	to, err := netip.ParseAddrPort(address)
	Expect(err).NotTo(HaveOccurred())
	connects := func(h *host.Host, address string) bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		connection, err := h.Dial(ctx, "tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	}
	loopback := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port()).String()
	return slices.ContainsFunc(siteHosts(), func(h *host.Host) bool {
		return connects(h, address) || h.Address == to.Addr() && connects(h, loopback)
	})
}

// agents connect to konnectivity's servers.
func (s *siege) agents(ctx context.Context) {
	GinkgoHelper()
	kubelet, err := s.attacker.KubeletClient()
	Expect(err).NotTo(HaveOccurred())
	servers := func(t *tenant) (list []string) {
		pods, err := t.pods(ctx, names.KubeAPIServer)
		Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			list = append(list, address(pod.Status.HostIP, t.ports(ctx).Number(kubeapiserver.KonnectivityAgent)))
		}
		return list
	}
	own := probe.Bearer("the attacker's own token", s.attacked.agentToken(ctx))
	taken := probe.Agent(ctx, s.attacker.Worker.Dial, servers(s.attacked)[0], own)
	Expect(taken.Status).To(Equal(http.StatusOK), "an agent of the tenant itself: %s", taken)
	s.report.Control("konnectivity's server of the tenant takes an agent with its own token: %s", taken)
	for _, t := range s.neighbours {
		for _, shown := range []probe.Credential{own, {Name: "no token"}, certificate("kubelet's certificate", *kubelet)} {
			outcome := attack.Outcome{Name: "konnectivity's agent", Did: "connects with " + shown.Name, Target: "konnectivity of " + t.Name}
			for _, at := range servers(t) {
				answer := probe.Agent(ctx, s.attacker.Worker.Dial, at, shown)
				outcome.Succeeded = outcome.Succeeded || !answer.Refused()
				outcome.Stopped = answer.String()
			}
			s.report.Add(outcome)
		}
	}
}

// pretend forges a Node that says it is another one's machine.
func (s *siege) pretend(ctx context.Context) {
	GinkgoHelper()
	machine := s.attacked.machines(ctx)[0]
	forged := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pretender"}, Spec: corev1.NodeSpec{ProviderID: machine.Spec.ProviderID}}
	Expect(client.IgnoreAlreadyExists(s.attacker.Client.Create(ctx, forged))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { _ = s.attacker.Client.Delete(ctx, forged) })
	outcome := attack.Outcome{Name: "forged providerID", Did: "makes a Node with the providerID of a Machine", Target: "the Machine's Node", Stopped: "Machine " + machine.Name + " keeps its Node " + s.attacker.Node}
	now := &clusterv1.Machine{}
	outcome.Succeeded = attack.Within(ctx, 15*time.Second, func() bool {
		get(ctx, client.ObjectKeyFromObject(&machine), now)
		return now.Status.NodeRef.Name != s.attacker.Node
	})
	s.report.Add(outcome)
}

// conditionsOf are what the control plane of the tenant says, in a line.
func (s *siege) conditionsOf(ctx context.Context) string {
	GinkgoHelper()
	var said []string
	for _, condition := range s.attacked.controlPlane(ctx).Status.Conditions {
		if condition.Type != conditionsv1.MovableCondition && condition.Status != metav1.ConditionTrue && condition.Message != "" {
			said = append(said, condition.Type+": "+condition.Message)
		}
	}
	text, err := json.Marshal(said)
	Expect(err).NotTo(HaveOccurred())
	return fmt.Sprintf("%.400s", text)
}
