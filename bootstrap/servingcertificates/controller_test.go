package servingcertificates

import (
	"context"
	"crypto/x509"
	"net"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

func cluster(edit func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KOKControlPlane", Name: "blue"}
	edit(c)
	return c
}

func machine(edit func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "worker-1", Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}}}
	m.Spec.ClusterName = "blue"
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: "node-1"}
	m.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	for kind, address := range map[clusterv1.MachineAddressType]string{
		clusterv1.MachineInternalIP: "192.0.2.1", clusterv1.MachineExternalIP: "2001:db8::1", clusterv1.MachineInternalDNS: "node-1.example",
	} {
		m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: kind, Address: address})
	}
	edit(m)
	return m
}

// run reconciles with one request in the tenant and returns what became of it.
func run(t *testing.T, c *clusterv1.Cluster, m *clusterv1.Machine, ask *x509.CertificateRequest, tenantObjects ...client.Object) (*certificatesv1.CertificateSigningRequest, ctrl.Result) {
	t.Helper()
	return runAmong(t, []client.Object{c, m}, request(t, ask), tenantObjects...)
}

// runAmong is run with further objects in the management cluster.
func runAmong(t *testing.T, management []client.Object, asked *certificatesv1.CertificateSigningRequest, tenantObjects ...client.Object) (*certificatesv1.CertificateSigningRequest, ctrl.Result) {
	t.Helper()
	r, tenant := between(t, management, append(tenantObjects, asked)...)
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "blue"}})
	if err != nil {
		t.Fatal(err)
	}
	decided := &certificatesv1.CertificateSigningRequest{}
	if err := tenant.Get(t.Context(), client.ObjectKeyFromObject(asked), decided); err != nil {
		t.Fatal(err)
	}
	return decided, result
}

// between makes a Reconciler for a management cluster and a tenant. It returns the tenant, too.
func between(t *testing.T, management []client.Object, tenantObjects ...client.Object) (*Reconciler, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme, kubeadmv1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	// The fake client knows no subresource "approval".
	tenant := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(tenantObjects...).Build(), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, _ ...client.SubResourceUpdateOption) error {
			if sub != "approval" {
				t.Errorf("subresource %s was written", sub)
			}
			return c.Status().Update(ctx, object)
		},
	})
	host := fake.NewClientBuilder().WithScheme(scheme).WithObjects(management...).Build()
	return &Reconciler{
		Client: host, APIReader: host,
		Tenants: clustercache.NewFakeClusterCache(tenant, client.ObjectKey{Namespace: "team", Name: "blue"}, "serving-certificates"), Guard: (&tenantapi.Guards{}).Of,
	}, tenant
}

func node(addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	for _, address := range addresses {
		kind := corev1.NodeInternalIP
		if net.ParseIP(address) == nil {
			kind = corev1.NodeInternalDNS
		}
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: kind, Address: address})
	}
	return n
}

func TestReconcile(t *testing.T) {
	asIs := func(*clusterv1.Cluster) {}
	foreign := func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane" }
	for name, test := range map[string]struct {
		cluster  func(*clusterv1.Cluster)
		machine  func(*clusterv1.Machine)
		tenant   []client.Object
		want     certificatesv1.RequestConditionType
		says     string
		requeues bool
	}{
		"a node of a KOKControlPlane is approved": {asIs, func(*clusterv1.Machine) {}, nil, certificatesv1.CertificateApproved, "Machine worker-1", false},
		"a Machine by name is found before it has a node": {asIs, func(m *clusterv1.Machine) {
			m.Name, m.Status.NodeRef = "node-1", clusterv1.MachineNodeReference{}
		}, nil, certificatesv1.CertificateApproved, "Machine node-1", false},
		"a Machine by address is found before it has a node": {asIs, func(m *clusterv1.Machine) {
			m.Status.NodeRef = clusterv1.MachineNodeReference{}
			m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: "node-1"})
		}, nil, certificatesv1.CertificateApproved, "Machine worker-1", false},
		"a Machine with another node is none": {asIs, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "node-2" }, nil, "", "", false},
		"an address that the Machine lacks is denied": {asIs, func(m *clusterv1.Machine) {
			m.Status.Addresses = []clusterv1.MachineAddress{{Address: "192.0.2.1"}, {Address: "node-1.example"}}
		}, []client.Object{node("192.0.2.1", "2001:db8::1", "node-1.example")}, certificatesv1.CertificateDenied, "address 2001:db8::1", false},
		"a Node's word does not do while the infrastructure is being made": {asIs, func(m *clusterv1.Machine) {
			m.Status.Addresses, m.Status.Initialization.InfrastructureProvisioned = nil, nil
		}, []client.Object{node("192.0.2.1", "2001:db8::1", "node-1.example")}, "", "", false},
		"a Node that is not there yet is waited for":  {asIs, func(m *clusterv1.Machine) { m.Status.Addresses = nil }, nil, "", "", true},
		"a node of another control plane is not ours": {foreign, func(*clusterv1.Machine) {}, nil, "", "", false},
		"a KOKConfig's node of another control plane is approved": {foreign, func(m *clusterv1.Machine) {
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KOKConfig", Name: "a"}
		}, nil, certificatesv1.CertificateApproved, "", false},
		"nothing is decided for a paused Cluster": {func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }, func(*clusterv1.Machine) {}, nil, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			decided, result := run(t, cluster(test.cluster), machine(test.machine), asked(), test.tenant...)
			if test.want == "" {
				if len(decided.Status.Conditions) > 0 {
					t.Errorf("it was decided: %+v", decided.Status.Conditions)
				}
			} else if len(decided.Status.Conditions) != 1 || decided.Status.Conditions[0].Type != test.want || decided.Status.Conditions[0].Status != corev1.ConditionTrue ||
				decided.Status.Conditions[0].Reason == "" || !strings.Contains(decided.Status.Conditions[0].Message, test.says) {
				t.Errorf("%+v, want %s: %q", decided.Status.Conditions, test.want, test.says)
			}
			if (result.RequeueAfter > 0) != test.requeues {
				t.Errorf("requeued after %s", result.RequeueAfter)
			}
		})
	}
}

// TestWhatANodeSaysOfItself is about Machines whose infrastructure names no addresses: what the Node says must do, which
// a kubelet writes as it likes.
func TestWhatANodeSaysOfItself(t *testing.T) {
	for name, test := range map[string]struct {
		says []string
		dns  []string
		ip   string
		want certificatesv1.RequestConditionType
		why  string
	}{
		"its addresses are believed":        {[]string{"192.0.2.1"}, []string{"node-1"}, "192.0.2.1", certificatesv1.CertificateApproved, "Machine worker-1"},
		"another address is not":            {[]string{"192.0.2.1"}, []string{"node-1"}, "192.0.2.2", certificatesv1.CertificateDenied, "address 192.0.2.2"},
		"its names are not":                 {[]string{"192.0.2.1", "node-1.example"}, []string{"node-1.example"}, "192.0.2.1", certificatesv1.CertificateDenied, "name node-1.example: not among"},
		"it is not the API server by name":  {[]string{"192.0.2.1", "kubernetes.default.svc"}, []string{"kubernetes.default.svc"}, "192.0.2.1", certificatesv1.CertificateDenied, "the API server's"},
		"nor by the address of the Service": {[]string{"192.0.2.1", "10.96.0.1"}, []string{"node-1"}, "10.96.0.1", certificatesv1.CertificateDenied, "a Service's"},
		"nor by that address as a name":     {[]string{"192.0.2.1", "10.96.0.1"}, []string{"10.96.0.1"}, "192.0.2.1", certificatesv1.CertificateDenied, "belong into IP SANs"},
		"nor by loopback":                   {[]string{"192.0.2.1", "127.0.0.1"}, []string{"node-1"}, "127.0.0.1", certificatesv1.CertificateDenied, "not one machine's alone"},
		"nor by the endpoint":               {[]string{"192.0.2.1", "192.0.2.100"}, []string{"node-1"}, "192.0.2.100", certificatesv1.CertificateDenied, "the control plane's endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			ask := asked()
			ask.DNSNames, ask.IPAddresses = test.dns, []net.IP{net.ParseIP(test.ip)}
			// The Cluster names no range of Services: it has the default.
			decided, _ := run(t, cluster(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint.Host = "192.0.2.100" }),
				machine(func(m *clusterv1.Machine) { m.Status.Addresses = nil }), ask, node(test.says...))
			if len(decided.Status.Conditions) != 1 || decided.Status.Conditions[0].Type != test.want || !strings.Contains(decided.Status.Conditions[0].Message, test.why) {
				t.Errorf("%+v, want %s: %q", decided.Status.Conditions, test.want, test.why)
			}
		})
	}
}

func TestTwoMachinesThatCouldBeTheNode(t *testing.T) {
	unsure := func(name string) clusterv1.Machine {
		m := machine(func(m *clusterv1.Machine) {
			m.Name, m.Status.NodeRef = name, clusterv1.MachineNodeReference{}
			m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: "node-1"}}
		})
		return *m
	}
	if found := machineOf("node-1", []clusterv1.Machine{unsure("a"), unsure("b")}); found != nil {
		t.Errorf("%s was taken for the node's Machine", found.Name)
	}
}

func TestATenantThatIsAwayIsTriedAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{
		Client:  fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster(func(*clusterv1.Cluster) {}), machine(func(*clusterv1.Machine) {})).Build(),
		Tenants: clustercache.NewFakeEmptyClusterCache(), Guard: (&tenantapi.Guards{}).Of,
	}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "blue"}})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("%+v, %v", result, err)
	}
}
