package servingcertificates

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// firstRequest is what kubelet asks for with a bootstrap token.
func firstRequest(t *testing.T, id, node string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	r := request(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}})
	r.Name = "node-csr-1"
	r.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	r.Spec.Username, r.Spec.Groups = "system:bootstrap:"+id, []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"}
	r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	return r
}

// owned is what a configuration of a Machine has.
func owned(machine string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team", Name: machine, OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine, UID: "a"}}}
}

func kokConfig(machine, id string) *bootstrapv1.KOKConfig {
	config := &bootstrapv1.KOKConfig{ObjectMeta: owned(machine)}
	config.Status.BootstrapToken.ID = id
	return config
}

func kubeadmConfig(machine, token string) *kubeadmv1.KubeadmConfig {
	config := &kubeadmv1.KubeadmConfig{ObjectMeta: owned(machine)}
	config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = token
	return config
}

func bootstrapToken(id string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}}
}

// joiningMachine is a Machine that has not joined.
func joiningMachine(name string, addresses ...string) *clusterv1.Machine {
	return machine(func(m *clusterv1.Machine) {
		m.Name, m.Status.NodeRef, m.Status.Addresses = name, clusterv1.MachineNodeReference{}, nil
		m.Spec.InfrastructureRef.Name = name
		for _, address := range addresses {
			m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: address})
		}
	})
}

// Finding 5: the holder of one machine's bootstrap token got a client certificate for any node's name.
func TestFinding5ATokenIsForTheNodeOfItsMachine(t *testing.T) {
	const own, kubeadms, nobodys, lost = "aaaaaa", "bbbbbb", "cccccc", "dddddd"
	is := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	for name, test := range map[string]struct {
		id, node string
		machine  func(*clusterv1.Machine)
		tenant   []client.Object
		further  []client.Object
		want     certificatesv1.RequestConditionType
		says     string
	}{
		"the Machine's name":            {own, "w1", nil, nil, nil, certificatesv1.CertificateApproved, "requested with the bootstrap token of Machine w1 for its node w1"},
		"the same for kubeadm's token":  {kubeadms, "w2", nil, nil, nil, certificatesv1.CertificateApproved, "Machine w2"},
		"another Machine's name":        {own, "w2", nil, nil, nil, certificatesv1.CertificateDenied, "made for Machine w1, and w2 is the name of Machine w2"},
		"the same with kubeadm's token": {kubeadms, "w1", nil, nil, nil, certificatesv1.CertificateDenied, "made for Machine w2, and w1 is the name of Machine w1"},
		"the node of another Machine":   {own, "node-1", nil, nil, nil, certificatesv1.CertificateDenied, "node-1 is the name of Machine worker-1"},
		"a name that the infrastructure says": {own, "host-1", func(m *clusterv1.Machine) {
			m.Status.Addresses = joiningMachine("a", "Host-1.example").Status.Addresses
		}, nil, nil, certificatesv1.CertificateApproved, "its node host-1"},
		"another name than it says":            {own, "host-2", func(m *clusterv1.Machine) { m.Status.Addresses = joiningMachine("a", "host-1").Status.Addresses }, nil, nil, certificatesv1.CertificateDenied, "may be called w1 or host-1"},
		"a free name, where it says none":      {own, "ip-10-0-0-1", nil, nil, nil, certificatesv1.CertificateApproved, "infrastructure names no node"},
		"a Node's name, where it says none":    {own, "other", nil, []client.Object{is("other")}, nil, "", ""},
		"a free name, before it says anything": {own, "ip-10-0-0-1", func(m *clusterv1.Machine) { m.Status.Initialization.InfrastructureProvisioned = nil }, nil, nil, "", ""},
		"the name of the node that it is":      {own, "ip-10-0-0-1", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "ip-10-0-0-1" }, []client.Object{is("ip-10-0-0-1")}, nil, certificatesv1.CertificateApproved, "its node"},
		"another than the node that it is":     {own, "w1", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "ip-10-0-0-1" }, nil, nil, certificatesv1.CertificateDenied, "which is node ip-10-0-0-1 and not w1"},
		"any name, while it goes": {own, "w1", func(m *clusterv1.Machine) {
			m.Finalizers, m.DeletionTimestamp = []string{"a"}, ptr.To(metav1.NewTime(time.Now()))
		}, nil, nil, certificatesv1.CertificateDenied, "being deleted"},
		"a free name with nobody's token":         {nobodys, "new", nil, nil, nil, certificatesv1.CertificateApproved, "made for no Machine, for the new node new"},
		"a Machine's name with nobody's token":    {nobodys, "w1", nil, nil, nil, certificatesv1.CertificateDenied, "made for no Machine, and w1 is the name of Machine w1"},
		"a Node's name with nobody's token":       {nobodys, "other", nil, []client.Object{is("other")}, nil, certificatesv1.CertificateDenied, "there is a Node other"},
		"a free name with a token that was ended": {lost, "new", nil, nil, nil, certificatesv1.CertificateDenied, "no longer, one of this cluster"},
		"a name while a token is not known yet":   {lost, "w3", nil, nil, []client.Object{joiningMachine("w3"), kokConfig("w3", "")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w1 := joiningMachine("w1")
			if test.machine != nil {
				test.machine(w1)
			}
			management := append([]client.Object{
				cluster(func(*clusterv1.Cluster) {}), machine(func(*clusterv1.Machine) {}), w1, joiningMachine("w2"),
				kokConfig("w1", own), kubeadmConfig("w2", kubeadms+".0123456789abcdef"),
			}, test.further...)
			tenant := append([]client.Object{bootstrapToken(own), bootstrapToken(kubeadms), bootstrapToken(nobodys)}, test.tenant...)
			decided, result := runAmong(t, management, firstRequest(t, test.id, test.node), tenant...)
			switch conditions := decided.Status.Conditions; {
			case test.want == "":
				if len(conditions) > 0 || result.RequeueAfter == 0 {
					t.Errorf("it does not wait: %+v", conditions)
				}
			case len(conditions) != 1 || conditions[0].Type != test.want || !strings.Contains(conditions[0].Message, test.says):
				t.Errorf("%+v, want %s: %q", conditions, test.want, test.says)
			}
		})
	}
}

func TestFinding5OnlyANodesFirstCertificateIsApproved(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*certificatesv1.CertificateSigningRequest)
		ask  *x509.CertificateRequest
		says string
	}{
		"an administrator's":        {ask: &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:w1", Organization: []string{"system:masters"}}}, says: "the organizations are"},
		"somebody's who is no node": {ask: &x509.CertificateRequest{Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:nodes"}}}, says: "the common name is"},
		"a server's":                {ask: &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:w1", Organization: []string{"system:nodes"}}, DNSNames: []string{"w1"}}, says: "to serve at"},
		"one with a server's usage": {edit: func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageServerAuth)
		}, says: "server auth"},
	} {
		t.Run(name, func(t *testing.T) {
			r := firstRequest(t, "aaaaaa", "w1")
			if test.ask != nil {
				r.Spec.Request = signed(t, test.ask)
			}
			if test.edit != nil {
				test.edit(r)
			}
			if got := DecideFirst(r, Joining{Machine: joiningMachine("w1"), Held: true}, nil); got.Action != Deny || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s: %s", got.Action, got.Message)
			}
		})
	}
	t.Run("renewals are left to the tenant", func(t *testing.T) {
		r := firstRequest(t, "aaaaaa", "w1")
		r.Spec.Username, r.Spec.Groups = "system:node:w1", []string{"system:nodes"}
		if Pending(r) {
			t.Error("it is decided on here")
		}
	})
	t.Run("other control planes approve their own", func(t *testing.T) {
		kubeadm := cluster(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane" })
		ours := machine(func(m *clusterv1.Machine) {
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KOKConfig", Name: "a"}
		})
		if decided, _ := runAmong(t, []client.Object{kubeadm, ours}, firstRequest(t, "aaaaaa", "w1")); len(decided.Status.Conditions) > 0 {
			t.Errorf("it was decided: %+v", decided.Status.Conditions)
		}
	})
}

func TestTheCacheHoldsOnlyWhatWaits(t *testing.T) {
	waits, decided := firstRequest(t, "aaaaaa", "w1"), firstRequest(t, "aaaaaa", "w1")
	decided.Status.Certificate = []byte("a")
	for name, test := range map[string]struct {
		request *certificatesv1.CertificateSigningRequest
		want    bool
	}{"a request that waits": {waits, true}, "one that is decided": {decided, false}} {
		kept, err := whatIsDecidedBy(test.request)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(kept.(*certificatesv1.CertificateSigningRequest).Spec.Request) > 0; got != test.want {
			t.Errorf("%s: its content is there: %t", name, got)
		}
	}
}
