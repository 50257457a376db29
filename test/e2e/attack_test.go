//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/attack"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

const (
	// attackTable is where the table of tries is written.
	attackTable = "out/attack/tries.txt"
	// metadataAddress is where clouds tell a machine who it is, and often by which password.
	metadataAddress = "169.254.169.254"
	// resolverAddress is where the lab's hosts look names up. There is nobody otherwise.
	resolverAddress = "10.255.255.53"
)

// The administrator of a tenant is a stranger, and root on its worker. Three neighbours go on meanwhile.
var _ = Describe("The administrator of a tenant as an attacker", Ordered, Label(full, attacks), func() {
	s := &siege{report: &attack.Report{}}
	s.attacked = newTenant("attacker", "v1.36.3", single())
	s.attacked.variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share the machine's kernel
	s.attacked.variables["KONNECTIVITY_MODE"] = string(controlplanev1.AddonManaged)
	s.attacked.workers = 1

	s.neighbours = []*tenant{newTenant("beside-1", "v1.36.3", nil), newTenant("beside-2", "v1.35.4", nil), newTenant("beside-3", "v1.36.3", nil)}

	BeforeAll(func(ctx SpecContext) {
		requireLab()
		removeWithHosts(append(s.neighbours, s.attacked)...)
		s.attacked.createWithWorkers(ctx, 0)
		together(s.neighbours, func(t *tenant) { t.createSmall(ctx) })
		s.prepare(ctx)
		sampleAll(ctx, &s.before, calmSamples, s.neighbours...)
		s.stop = sync.OnceFunc(sampleOn(context.WithoutCancel(ctx), &s.during, s.neighbours...))
		DeferCleanup(s.stop)
		DeferCleanup(func() { Expect(s.report.WriteFile(attackTable)).To(Succeed()) })
		s.ran = s.restarts(ctx)
	}, NodeTimeout(8*creation+join))

	It("reaches nothing by way of its API servers", func(ctx SpecContext) {
		Expect(s.attacker.Reach(ctx, s.report, attack.Ways(), s.targets())).To(Succeed())
		Expect(s.attacker.Reach(ctx, s.report, attack.NamedWays(s.resolver()), s.targets())).To(Succeed())
	}, SpecTimeout(20*time.Minute))

	It("is let in at no door of others, nor at one of its own etcd", func(ctx SpecContext) {
		s.dialDoors(ctx)
	}, SpecTimeout(10*time.Minute))

	It("becomes nobody else", func(ctx SpecContext) {
		Expect(s.attacker.Forged(ctx, s.report, siteHosts()[1].Address.String(), s.attacked.controlPlane(ctx).Spec.ControlPlaneEndpoint.Host)).To(Succeed())
		s.pretend(ctx)
	}, SpecTimeout(5*time.Minute))

	It("learns no manager's token, nor that of Cluster API's core, with a user of a namespace to help", func(ctx SpecContext) {
		s.luresManagers(ctx)
	}, SpecTimeout(15*time.Minute))

	It("stops no manager by what it answers", func(ctx SpecContext) {
		s.floods(ctx)
		s.endlessShell(ctx)
	}, SpecTimeout(10*time.Minute))

	It("stops no manager and no neighbour by numbers", func(ctx SpecContext) {
		s.hold(ctx)
		s.crowd(ctx)
	}, SpecTimeout(20*time.Minute))

	It("is listed with what stopped it", func(ctx SpecContext) {
		s.stop()
		Expect(s.report.Write(env.log)).To(Succeed())
		succeeded, slower := s.report.Succeeded(), s.tellWaits()
		figure("attack_tries", len(s.report.Outcomes()), "tries")
		figure("attack_succeeded", len(succeeded), "tries")
		figure("attack_manager_restarts", restartedSince(ctx, s.ran, ownManagers...), "restarts")
		figure("attack_capi_manager_restarts", restartedSince(ctx, s.ran, coreManager), "restarts")
		Expect(len(s.report.Outcomes())).To(BeNumerically(">=", 30))
		Expect(succeeded).To(BeEmpty())
		Expect(restartedSince(ctx, s.ran, ownManagers...)).To(BeZero(), "restarts of our managers")
		Expect(s.during.Unsampled()).To(BeEmpty(), "samples of neighbours that failed")
		Expect(slower.Median).To(BeNumerically("<=", longer), "how much longer neighbours wait")
		Expect(slower.Window).To(BeNumerically("<=", muchLonger), "how much longer a neighbour waits in its worst window: %s", slower)
	}, SpecTimeout(time.Minute+8*join)) // The time of a last spec has that of removing the tenants in it.
})

// siege is an attacker, and what is beside it.
type siege struct {
	attacked    *tenant
	attacker    *attack.Attacker
	report      *attack.Report
	certificate *tls.Certificate

	// neighbours are sampled before the attack, and until stop is called.
	neighbours     []*tenant
	before, during attack.Neighbours
	stop           func()
	// ran is how often managers had started again before.
	ran map[client.ObjectKey]map[string]int32
}

// prepare makes the attacker of the tenant, and the address of metadata on every host of the site.
func (s *siege) prepare(ctx context.Context) {
	GinkgoHelper()
	s.attacked.access.QPS, s.attacked.access.Burst = 1000, 2000
	var err error
	s.attacked.api, err = kubernetes.NewForConfig(s.attacked.access)
	Expect(err).NotTo(HaveOccurred())
	api, err := client.New(s.attacked.access, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	s.attacker = &attack.Attacker{
		Config: s.attacked.access, API: s.attacked.api, Client: api, Worker: s.attacked.worker(ctx),
		Node: s.attacked.machines(ctx)[0].Status.NodeRef.Name,
	}
	addresses := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr(metadataAddress), s.attacker.Worker.Address}
	for _, h := range siteHosts() {
		addresses = append(addresses, h.Address)
		addAddress(h, metadataAddress)
	}
	certificate, ca, err := attack.Certificate([]string{"*." + metav1.NamespaceDefault + ".svc"}, addresses...)
	Expect(err).NotTo(HaveOccurred())
	s.attacker.CA = ca
	s.attacker.UseCertificate(certificate)
	s.certificate = certificate
}

// siteHosts are the hosts of the host cluster: its own control plane, and the nodes that carry control planes.
func siteHosts() (list []*host.Host) {
	GinkgoHelper()
	hosts, err := env.lab.Hosts()
	Expect(err).NotTo(HaveOccurred())
	for _, h := range hosts {
		if !h.Worker() {
			list = append(list, h)
		}
	}
	return list
}

// addAddress gives a host one more address of its own, until the specs of the container are over.
func addAddress(h *host.Host, wanted string) {
	GinkgoHelper()
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(wanted), Mask: net.CIDRMask(32, 32)}}
	change := func(do func(netlink.Link, *netlink.Addr) error) error {
		return h.InNetwork(func() error {
			loopback, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			return do(loopback, address)
		})
	}
	Expect(change(netlink.AddrReplace)).To(Succeed(), h.Name)
	DeferCleanup(func() { Expect(change(netlink.AddrDel)).To(Succeed(), h.Name) })
}

// resolver answers host nodes' and the worker's questions of DNS: whoever owns a domain answers for its names everywhere. In the
// lab pods of host nodes know no name server, and ask their own loopback; the worker asks the one that hosts have.
func (s *siege) resolver() *attack.Resolver {
	GinkgoHelper()
	resolver := attack.NewResolver(s.attacker.Worker.Address)
	serve := func(h *host.Host, address string) {
		var socket net.PacketConn
		Expect(h.InNetwork(func() (err error) {
			socket, err = net.ListenPacket("udp4", net.JoinHostPort(address, "53"))
			return err
		})).To(Succeed(), h.Name)
		DeferCleanup(socket.Close)
		go resolver.Serve(socket)
	}
	addAddress(s.attacker.Worker, resolverAddress)
	serve(s.attacker.Worker, resolverAddress)
	for _, h := range append(siteHosts(), s.attacker.Worker) {
		serve(h, "127.0.0.1")
	}
	return resolver
}

// targets are those that canaries are planted at.
func (s *siege) targets() []attack.Target {
	nodes := slices.DeleteFunc(siteHosts(), func(h *host.Host) bool { return h.Site != host.SiteIDC })
	on := func(name string, address func(*host.Host) netip.Addr) attack.Target {
		return attack.Target{
			Name: name,
			Plant: func(context.Context) (*attack.Canary, netip.AddrPort, error) {
				var places []attack.Listen
				for _, h := range nodes {
					places = append(places, attack.ListenAt(h, address(h)))
				}
				port := attack.NextPort()
				canary, err := attack.Plant(port, s.certificate, nil, places...)
				return canary, netip.AddrPortFrom(address(nodes[0]), port), err
			},
			Ask: func(ctx context.Context, to netip.AddrPort) (string, error) { return ask(ctx, nodes[0], to) },
		}
	}
	fixed := func(text string) func(*host.Host) netip.Addr {
		return func(*host.Host) netip.Addr { return netip.MustParseAddr(text) }
	}
	return []attack.Target{
		on("loopback of host nodes", fixed("127.0.0.1")),
		on("metadata address of host nodes", fixed(metadataAddress)),
		on("address of a host node", func(h *host.Host) netip.Addr { return h.Address }),
		{Name: "ClusterIP of the host cluster", Plant: s.plantService, Ask: func(ctx context.Context, to netip.AddrPort) (string, error) { return ask(ctx, nodes[0], to) }},
	}
}

// ask asks a canary from inside a host.
func ask(ctx context.Context, h *host.Host, to netip.AddrPort) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	asking := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: h.Dial}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to.String(), http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := asking.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	return string(answer), err
}

// plantService makes a canary on the host cluster's own control plane, and a Service of the host cluster that leads there.
func (s *siege) plantService(ctx context.Context) (*attack.Canary, netip.AddrPort, error) {
	cloud := siteHosts()[0]
	port := attack.NextPort()
	canary, err := attack.Plant(port, s.certificate, nil, attack.ListenAt(cloud, cloud.Address))
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	meta := metav1.ObjectMeta{Namespace: s.attacked.Namespace, GenerateName: "canary-"}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "p", Port: int32(port)}}}}
	if err := env.client.Create(ctx, service); err != nil {
		return nil, netip.AddrPort{}, err
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("p"), Port: ptr.To(int32(port))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{cloud.Address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: service.Name}
	if err := env.client.Create(ctx, slice); err != nil {
		return nil, netip.AddrPort{}, err
	}
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	to := netip.AddrPortFrom(address, port)
	// kube-proxy hears of it a moment later.
	Eventually(ctx, func() (string, error) { return ask(ctx, siteHosts()[1], to) }).Should(Equal(canary.Token))
	return canary, to, err
}
