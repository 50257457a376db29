package servingcertificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
)

// asked is what a kubelet puts into its request.
func asked() *x509.CertificateRequest {
	return &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:node-1", Organization: []string{"system:nodes"}},
		DNSNames:    []string{"node-1", "node-1.example"},
		IPAddresses: []net.IP{net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")},
	}
}

func signed(t *testing.T, template *x509.CertificateRequest) []byte {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func request(t *testing.T, template *x509.CertificateRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: signed(t, template), SignerName: certificatesv1.KubeletServingSignerName,
			Username: "system:node:node-1", Groups: []string{"system:nodes", "system:authenticated"},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
}

var known = Node{Machine: "worker-1", Addresses: []string{"NODE-1.example", "192.0.2.1", "2001:db8:0::1", "192.0.2.9"}}

// everywhere is a node that says of itself, or whose Machine says, that it is everything.
func everywhere() *Node {
	return &Node{Machine: "worker-1", Addresses: []string{
		"node-1.example", "192.0.2.1", "2001:db8::1",
		"127.0.0.1", "::1", "0.0.0.0", "169.254.169.254", "fe80::1", "224.0.0.1", "10.96.0.1", "10.111.255.255", "fd00:96::a", "192.0.2.100", "10.95.0.1",
		"localhost", "kubernetes", "kubernetes.default", "Kubernetes.Default.Svc", "kubernetes.default.svc.tenant.example", "web.shop.svc", "web.shop.svc.tenant.example", "api.example",
		"w1.tenant.example",
	}}
}

func within(t *testing.T) Cluster {
	t.Helper()
	networks, err := services.Networks([]string{"10.96.0.0/12", "fd00:96::/112"})
	if err != nil {
		t.Fatal(err)
	}
	return Cluster{ServiceCIDRs: networks, DNSDomain: "Tenant.example", Endpoint: "192.0.2.100"}
}

// TestNobodyPassesForTheAPIServer asks for one name or address that the node is said to have.
func TestNobodyPassesForTheAPIServer(t *testing.T) {
	named := within(t)
	named.Endpoint = "API.example"
	for name, test := range map[string]struct {
		cluster Cluster
		dns     string
		ip      string
		want    Action
		says    string
	}{
		"loopback":                           {within(t), "", "127.0.0.1", Deny, "address 127.0.0.1, which is not one machine's alone"},
		"loopback of IPv6":                   {within(t), "", "::1", Deny, "not one machine's alone"},
		"no address":                         {within(t), "", "0.0.0.0", Deny, "not one machine's alone"},
		"a cloud's metadata":                 {within(t), "", "169.254.169.254", Deny, "not one machine's alone"},
		"a link-local address":               {within(t), "", "fe80::1", Deny, "not one machine's alone"},
		"a group":                            {within(t), "", "224.0.0.1", Deny, "not one machine's alone"},
		"the Service kubernetes":             {within(t), "", "10.96.0.1", Deny, "address 10.96.0.1, a Service's"},
		"the last Service":                   {within(t), "", "10.111.255.255", Deny, "a Service's"},
		"a Service of IPv6":                  {within(t), "", "fd00:96::a", Deny, "a Service's"},
		"the endpoint's address":             {within(t), "", "192.0.2.100", Deny, "the control plane's endpoint"},
		"an address beside those":            {within(t), "", "10.95.0.1", Approve, ""},
		"the endpoint's address elsewhere":   {named, "", "192.0.2.100", Approve, ""},
		"every machine's name":               {within(t), "localhost", "", Deny, "name localhost, every machine's"},
		"the API server's name":              {within(t), "kubernetes", "", Deny, "the API server's"},
		"its name in a namespace":            {within(t), "kubernetes.default", "", Deny, "the API server's"},
		"its name as a Service":              {within(t), "KUBERNETES.default.svc", "", Deny, "the API server's"},
		"its whole name":                     {within(t), "kubernetes.default.svc.tenant.example", "", Deny, "a Service's"},
		"its whole name with the root's dot": {within(t), "kubernetes.default.svc.tenant.example.", "", Deny, "a Service's"},
		"a Service's name":                   {within(t), "web.shop.svc", "", Deny, "a Service's"},
		"a Service's whole name":             {within(t), "web.shop.svc.tenant.example", "", Deny, "a Service's"},
		"the endpoint's name":                {named, "api.example", "", Deny, "the control plane's endpoint"},
		"a machine's name in that domain":    {within(t), "w1.tenant.example", "", Approve, ""},
	} {
		t.Run(name, func(t *testing.T) {
			template := asked()
			if test.dns != "" {
				template.DNSNames = append(template.DNSNames, test.dns)
			}
			if test.ip != "" {
				template.IPAddresses = append(template.IPAddresses, net.ParseIP(test.ip))
			}
			if got := Decide(request(t, template), test.cluster, *everywhere()); got.Action != test.want || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s: %s, want %s: %q", got.Action, got.Message, test.want, test.says)
			}
		})
	}
	t.Run("also not by its own name", func(t *testing.T) {
		template := asked()
		template.Subject.CommonName, template.DNSNames = "system:node:kubernetes.default.svc", []string{"kubernetes.default.svc"}
		r := request(t, template)
		r.Spec.Username = "system:node:kubernetes.default.svc"
		if got := Decide(r, within(t), *everywhere()); got.Action != Deny {
			t.Errorf("%s: %s", got.Action, got.Message)
		}
	})
}

func TestDecide(t *testing.T) {
	type csr = certificatesv1.CertificateSigningRequest
	for name, test := range map[string]struct {
		ask  func(*x509.CertificateRequest)
		edit func(*csr)
		node *Node
		want Action
		says string
	}{
		"a node's own names and addresses": {want: Approve, says: "requested by node node-1 for itself"},
		"its name alone": {ask: func(r *x509.CertificateRequest) {
			r.DNSNames, r.IPAddresses = []string{"node-1"}, nil
		}, want: Approve},
		"an RSA key's usage": {edit: func(r *csr) { r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageKeyEncipherment) }, want: Approve},

		"no Machine":                      {node: &Node{}, want: Wait, says: "no Machine has node node-1 yet"},
		"a Machine without addresses":     {node: &Node{Machine: "worker-1"}, want: Wait, says: "addresses of Machine worker-1, node node-1, are not known yet"},
		"a bad request without a Machine": {node: &Node{}, ask: func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:node-2" }, want: Deny},
		"another node's name":             {ask: func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, "node-2") }, want: Deny, says: "name node-2: not among the addresses of Machine worker-1"},
		"the API server's name":           {ask: func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes.default.svc"} }, want: Deny, says: "name kubernetes.default.svc"},
		"a wildcard":                      {ask: func(r *x509.CertificateRequest) { r.DNSNames = []string{"*.example"} }, want: Deny},
		"another node's address":          {ask: func(r *x509.CertificateRequest) { r.IPAddresses = append(r.IPAddresses, net.ParseIP("192.0.2.2")) }, want: Deny, says: "address 192.0.2.2"},
		"loopback":                        {ask: func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.ParseIP("127.0.0.1")} }, want: Deny},
		"an address as a name":            {ask: func(r *x509.CertificateRequest) { r.DNSNames = []string{"10.0.0.1"} }, want: Deny, says: "10.0.0.1 is an address; addresses belong into IP SANs"},
		"its own address as a name":       {ask: func(r *x509.CertificateRequest) { r.DNSNames = []string{"192.0.2.1"} }, want: Deny, says: "belong into IP SANs"},
		"it with the root's dot":          {ask: func(r *x509.CertificateRequest) { r.DNSNames = []string{"node-1", "192.0.2.1."} }, want: Deny, says: "192.0.2.1. is an address"},
		"its address of IPv6 as a name":   {ask: func(r *x509.CertificateRequest) { r.DNSNames = []string{"2001:db8::1"} }, want: Deny, says: "belong into IP SANs"},
		"a Service's address as a name":   {node: everywhere(), ask: func(r *x509.CertificateRequest) { r.DNSNames = []string{"10.96.0.1"} }, want: Deny, says: "belong into IP SANs"},
		"another node's common name":      {ask: func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:node-2" }, want: Deny, says: `"system:node:node-2"; it must be the requester's`},
		"an administrator's group":        {ask: func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }, want: Deny, says: "system:masters"},
		"one more group":                  {ask: func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:nodes", "system:masters"} }, want: Deny},
		"no group":                        {ask: func(r *x509.CertificateRequest) { r.Subject.Organization = nil }, want: Deny},
		"an e-mail address":               {ask: func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example"} }, want: Deny, says: "e-mail"},
		"a URI":                           {ask: func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }, want: Deny, says: "URIs"},
		"nothing":                         {ask: func(r *x509.CertificateRequest) { r.DNSNames, r.IPAddresses = nil, nil }, want: Deny, says: "no name and no address"},
		"a client's usage":                {edit: func(r *csr) { r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageClientAuth) }, want: Deny, says: `usage "client auth"`},
		"a CA's usage":                    {edit: func(r *csr) { r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageCertSign) }, want: Deny},
		"no server's usage":               {edit: func(r *csr) { r.Spec.Usages = r.Spec.Usages[:1] }, want: Deny, says: `usage "server auth" is missing`},
		"a user that is no node":          {edit: func(r *csr) { r.Spec.Username = "system:serviceaccount:a:b" }, want: Deny, says: "which is no node"},
		"a bootstrap token": {edit: func(r *csr) {
			r.Spec.Username = "system:bootstrap:abcdef"
			r.Spec.Groups = []string{"system:bootstrappers"}
		}, want: Deny},
		"a user that calls itself a node": {edit: func(r *csr) { r.Spec.Groups = []string{"system:authenticated"} }, want: Deny, says: "which is no node"},
		"a node without a name":           {edit: func(r *csr) { r.Spec.Username = "system:node:" }, want: Deny},
		"another node for this one":       {edit: func(r *csr) { r.Spec.Username = "system:node:node-2" }, want: Deny},
		"text":                            {edit: func(r *csr) { r.Spec.Request = []byte("hello") }, want: Deny, says: "not one PEM block"},
		"two requests in one":             {edit: func(r *csr) { r.Spec.Request = append(r.Spec.Request, r.Spec.Request...) }, want: Deny, says: "not one PEM block"},
		"a certificate": {edit: func(r *csr) {
			r.Spec.Request = []byte(strings.ReplaceAll(string(r.Spec.Request), "CERTIFICATE REQUEST", "CERTIFICATE"))
		}, want: Deny},
		"a block of something else": {edit: func(r *csr) {
			r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("a")})
		}, want: Deny, says: "cannot be read"},
		"a request with a broken signature": {edit: func(r *csr) {
			block, _ := pem.Decode(r.Spec.Request)
			block.Bytes[len(block.Bytes)-1] ^= 1
			r.Spec.Request = pem.EncodeToMemory(block)
		}, want: Deny, says: "spec.request"},
	} {
		t.Run(name, func(t *testing.T) {
			template := asked()
			if test.ask != nil {
				test.ask(template)
			}
			r := request(t, template)
			if test.edit != nil {
				test.edit(r)
			}
			node := known
			if test.node != nil {
				node = *test.node
			}
			if got := Decide(r, within(t), node); got.Action != test.want || !strings.Contains(got.Message, test.says) {
				t.Errorf("%s: %s, want %s: %q", got.Action, got.Message, test.want, test.says)
			}
		})
	}
}

func TestPending(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*certificatesv1.CertificateSigningRequest)
		want bool
	}{
		"a new request":            {func(*certificatesv1.CertificateSigningRequest) {}, true},
		"another signer's request": {func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = "example/a" }, false},
		"an approved request": {func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
		}, false},
		"a denied request": {func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}, false},
		"a signed request": {func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = []byte("a") }, false},
	} {
		r := request(t, asked())
		test.edit(r)
		if got := Pending(r); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
