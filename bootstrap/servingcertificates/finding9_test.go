package servingcertificates

import (
	"net"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// Finding 9: where the infrastructure names no addresses, a node got a serving certificate for whatever it said of itself.
func TestFinding9ANodeDoesNotServeAtAnothersAddress(t *testing.T) {
	controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}
	controlPlane.Spec.ControlPlaneEndpoint.Host = "198.51.100.1"
	controlPlane.Spec.KubeAPIServer.CertSANs = []string{"198.51.100.2", "api.example"}
	otherNode := node("192.0.2.3", "node-3.example")
	otherNode.Name = "node-3"
	servers := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: "kubernetes"},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"198.51.100.3"}}}}
	for name, test := range map[string]struct {
		// asks is an address or a name that the request has beside the node's own.
		asks string
		want certificatesv1.RequestConditionType
		why  string
	}{
		"its own":                              {"192.0.2.1", certificatesv1.CertificateApproved, "for itself"},
		"its own name":                         {"node-1", certificatesv1.CertificateApproved, "for itself"},
		"another Machine's":                    {"192.0.2.2", certificatesv1.CertificateDenied, "192.0.2.2, which Machine worker-2 has"},
		"another Node's":                       {"192.0.2.3", certificatesv1.CertificateDenied, "192.0.2.3, which Node node-3 has"},
		"the control plane's endpoint":         {"198.51.100.1", certificatesv1.CertificateDenied, "198.51.100.1, which the API server has"},
		"one in the API server's certificate":  {"198.51.100.2", certificatesv1.CertificateDenied, "198.51.100.2, which the API server has"},
		"one that API servers are exposed at":  {"198.51.100.3", certificatesv1.CertificateDenied, "198.51.100.3, which the API server has"},
		"another Machine's in another writing": {"::ffff:192.0.2.2", certificatesv1.CertificateDenied, "which Machine worker-2 has"},
		"another Node's name":                  {"node-3", certificatesv1.CertificateDenied, "node-3"},
		"a name that another Node says it has": {"node-3.example", certificatesv1.CertificateDenied, "node-3.example"},
		"a name in the API server's":           {"api.example", certificatesv1.CertificateDenied, "api.example"},
	} {
		t.Run(name, func(t *testing.T) {
			other := machine(func(m *clusterv1.Machine) {
				m.Name, m.Status.NodeRef.Name = "worker-2", "node-2"
				m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "192.0.2.2"}}
			})
			ask := asked()
			ask.DNSNames, ask.IPAddresses = []string{"node-1"}, []net.IP{net.ParseIP("192.0.2.1")}
			if ip := net.ParseIP(test.asks); ip != nil {
				ask.IPAddresses = append(ask.IPAddresses, ip)
			} else {
				ask.DNSNames = append(ask.DNSNames, test.asks)
			}
			management := []client.Object{cluster(func(*clusterv1.Cluster) {}), machine(func(m *clusterv1.Machine) { m.Status.Addresses = nil }), other, controlPlane.DeepCopy()}
			decided, _ := runAmong(t, management, request(t, ask), node("192.0.2.1", test.asks), otherNode.DeepCopy(), servers.DeepCopy())
			if len(decided.Status.Conditions) != 1 || decided.Status.Conditions[0].Type != test.want || !strings.Contains(decided.Status.Conditions[0].Message, test.why) {
				t.Errorf("%+v, want %s: %q", decided.Status.Conditions, test.want, test.why)
			}
		})
	}
}

// What the infrastructure says of a Machine holds, whatever other nodes say of themselves.
func TestFinding9ALiarTakesNoAddressAway(t *testing.T) {
	liar := node("192.0.2.1", "2001:db8::1")
	liar.Name = "node-3"
	decided, _ := run(t, cluster(func(*clusterv1.Cluster) {}), machine(func(*clusterv1.Machine) {}), asked(), liar)
	if len(decided.Status.Conditions) != 1 || decided.Status.Conditions[0].Type != certificatesv1.CertificateApproved {
		t.Errorf("%+v", decided.Status.Conditions)
	}
}
