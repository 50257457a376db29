package attack

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

var (
	serving = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	dialing = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
)

// undecided is how long a request waits until it counts as one that nobody approves. Approvals take a second.
const undecided = 10 * time.Second

// Forged are the requests for certificates of others. host is the address of a host node,
// endpoint that of the tenant's API.
func (a *Attacker) Forged(ctx context.Context, report *Report, host, endpoint string) error {
	kubelet, err := a.asKubelet()
	if err != nil {
		return err
	}
	node := pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + a.Node}
	request := func(subject pkix.Name, names []string, addresses ...string) x509.CertificateRequest {
		made := x509.CertificateRequest{Subject: subject, DNSNames: names}
		for _, address := range addresses {
			made.IPAddresses = append(made.IPAddresses, net.ParseIP(address))
		}
		return made
	}
	own, err := a.asked(ctx, kubelet, certificatesv1.KubeletServingSignerName, serving, request(node, []string{a.Node}, a.Worker.Address.String()))
	if err != nil {
		return err
	}
	if !own.approved {
		return fmt.Errorf("kubelet's request for its own name and address is not approved: %s", own)
	}
	report.Control("the worker's kubelet gets a serving certificate for its own name and address: %s", own)
	for _, try := range []struct {
		target, did string
		request     x509.CertificateRequest
	}{
		{"address of a host node", "kubelet asks to serve at a host node's address", request(node, []string{a.Node}, host)},
		{"names of the API server", "kubelet asks to serve as kubernetes.default.svc", request(node, []string{"kubernetes.default.svc"})},
		{"the control plane's endpoint", "kubelet asks to serve at the endpoint", request(node, nil, endpoint)},
		{"loopback of every machine", "kubelet asks to serve at 127.0.0.1", request(node, nil, "127.0.0.1")},
		{"the address of a Service", "kubelet asks to serve at the Service kubernetes", request(node, nil, "10.96.0.1")},
		{"the node of another machine", "kubelet asks with another node's name", request(pkix.Name{Organization: node.Organization, CommonName: "system:node:other"}, []string{"other"})},
	} {
		if err := a.tryRequest(ctx, report, "kubelet's serving certificate", try.did, try.target, kubelet, certificatesv1.KubeletServingSignerName, serving, try.request); err != nil {
			return err
		}
	}
	if err := a.tryRequest(ctx, report, "kubelet's client certificate", "kubelet renews its certificate for another node's name", "the node of another machine", kubelet,
		certificatesv1.KubeAPIServerClientKubeletSignerName, dialing, request(pkix.Name{Organization: node.Organization, CommonName: "system:node:other"}, nil)); err != nil {
		return err
	}
	if err := a.forgedNode(ctx, report, host, request); err != nil {
		return err
	}
	if err := a.tryMasters(ctx, report); err != nil {
		return err
	}
	return a.byToken(ctx, report, request)
}

// forgedNode asks as a Node that is none and says that it has a host node's address.
func (a *Attacker) forgedNode(ctx context.Context, report *Report, host string, request func(pkix.Name, []string, ...string) x509.CertificateRequest) error {
	forged, err := a.forge(ctx, corev1.NodeInternalIP, host, 10250)
	if err != nil {
		return err
	}
	defer a.remove(ctx, forged)
	subject := pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + forged.Name}
	as := rest.CopyConfig(a.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: subject.CommonName, Groups: []string{"system:nodes", "system:authenticated"}}
	return a.tryRequest(ctx, report, "serving certificate of a forged Node", "impersonates a forged Node that says it has a host node's address", "address of a host node",
		as, certificatesv1.KubeletServingSignerName, serving, request(subject, []string{forged.Name}, host))
}

// tryMasters has the administrator approve the request himself.
func (a *Attacker) tryMasters(ctx context.Context, report *Report) error {
	outcome := Outcome{Name: "client certificate", Did: "asks for one of system:masters, and approves it himself", Target: "system:masters for good"}
	_, answer, err := a.SelfApproved(ctx, pkix.Name{Organization: []string{"system:masters"}, CommonName: "root"})
	outcome.Succeeded, outcome.Stopped = err == nil, answer
	switch {
	case refuses(err) || errors.Is(err, errUnsigned):
		outcome.Stopped = err.Error()
	case err != nil:
		return fmt.Errorf("%s: %w", outcome.Did, err)
	}
	report.Add(outcome)
	return nil
}

// byToken asks with a bootstrap token of the administrator's own.
func (a *Attacker) byToken(ctx context.Context, report *Report, request func(pkix.Name, []string, ...string) x509.CertificateRequest) error {
	config, err := a.Token(ctx)
	if err != nil {
		return err
	}
	node := func(name string) pkix.Name {
		return pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + name}
	}
	fresh, err := a.asked(ctx, config, certificatesv1.KubeAPIServerClientKubeletSignerName, dialing, request(node(a.name("new")), nil))
	if err != nil {
		return err
	}
	if !fresh.approved {
		return fmt.Errorf("a bootstrap token does not join a new node: %s", fresh)
	}
	report.Control("a bootstrap token that the administrator made joins a new node: %s", fresh)
	for _, try := range []struct {
		target, did string
		subject     pkix.Name
	}{
		{"the node of a Machine", "asks with a bootstrap token to be the worker that is there", node(a.Node)},
		{"system:masters", "asks with a bootstrap token to be of system:masters", pkix.Name{Organization: []string{"system:masters"}, CommonName: "system:node:new"}},
		{"the manager's user", "asks with a bootstrap token to be kok-control-plane", pkix.Name{Organization: []string{"system:nodes"}, CommonName: "kok-control-plane"}},
	} {
		if err := a.tryRequest(ctx, report, "client certificate by a bootstrap token", try.did, try.target, config,
			certificatesv1.KubeAPIServerClientKubeletSignerName, dialing, request(try.subject, nil)); err != nil {
			return err
		}
	}
	return nil
}

// Token makes a bootstrap token, and is what it gives. It waits until an API server takes it: each knows new tokens from a watch.
func (a *Attacker) Token(ctx context.Context) (*rest.Config, error) {
	id, secret := "attack", "0123456789abcdef"
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + id},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey: id, bootstrapapi.BootstrapTokenSecretKey: secret, bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey: "system:bootstrappers:kubeadm:default-node-token",
		},
	}
	a.remove(ctx, token)
	if err := a.Client.Create(ctx, token); err != nil {
		return nil, fmt.Errorf("make a bootstrap token: %w", err)
	}
	config := rest.AnonymousClientConfig(a.Config)
	config.BearerToken = id + "." + secret
	joining, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := joining.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if apierrors.IsUnauthorized(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait until an API server takes the bootstrap token: %w", err)
	}
	return config, nil
}

var errUnsigned = fmt.Errorf("nobody signed it within %s", undecided)

// SelfApproved is a client certificate that the administrator asked for and approved himself.
func (a *Attacker) SelfApproved(ctx context.Context, subject pkix.Name) (*tls.Certificate, string, error) {
	key, request, err := newRequest(x509.CertificateRequest{Subject: subject})
	if err != nil {
		return nil, "", err
	}
	made, err := a.ask(ctx, a.Config, certificatesv1.KubeAPIServerClientSignerName, dialing, request)
	if err != nil {
		return nil, "", err
	}
	made.Status.Conditions = append(made.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Attack"})
	requests := a.API.CertificatesV1().CertificateSigningRequests()
	if _, err := requests.UpdateApproval(ctx, made.Name, made, metav1.UpdateOptions{}); err != nil {
		return nil, "", err
	}
	var signed *pem.Block
	if !Within(ctx, undecided, func() bool {
		var now *certificatesv1.CertificateSigningRequest
		if now, err = requests.Get(ctx, made.Name, metav1.GetOptions{}); err == nil {
			signed, _ = pem.Decode(now.Status.Certificate)
		}
		return signed != nil
	}) {
		return nil, "", cmp.Or(err, errUnsigned)
	}
	return &tls.Certificate{Certificate: [][]byte{signed.Bytes}, PrivateKey: key}, "signed", nil
}

// decision is what became of a request for a certificate.
type decision struct {
	approved bool
	message  string
}

func (d decision) String() string { return d.message }

func (a *Attacker) tryRequest(ctx context.Context, report *Report, name, did, target string, as *rest.Config, signer string, usages []certificatesv1.KeyUsage, wanted x509.CertificateRequest) error {
	got, err := a.asked(ctx, as, signer, usages, wanted)
	switch {
	case refuses(err):
		got = decision{message: err.Error()}
	case err != nil:
		return fmt.Errorf("%s: %w", did, err)
	}
	report.Add(Outcome{Name: name, Did: did, Target: target, Succeeded: got.approved, Stopped: got.message})
	return ctx.Err()
}

// refuses reports whether an API server judged a request and does not let it pass.
func refuses(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// asked makes a request and waits until it is decided on.
func (a *Attacker) asked(ctx context.Context, as *rest.Config, signer string, usages []certificatesv1.KeyUsage, wanted x509.CertificateRequest) (decision, error) {
	_, request, err := newRequest(wanted)
	if err != nil {
		return decision{}, err
	}
	made, err := a.ask(ctx, as, signer, usages, request)
	if err != nil {
		return decision{}, err
	}
	requests := a.API.CertificatesV1().CertificateSigningRequests()
	got := decision{message: fmt.Sprintf("nobody approved it within %s", undecided)}
	var failed error
	Within(ctx, undecided, func() bool {
		var now *certificatesv1.CertificateSigningRequest
		if now, failed = requests.Get(ctx, made.Name, metav1.GetOptions{}); failed != nil || len(now.Status.Conditions) == 0 {
			return false
		}
		first := now.Status.Conditions[0]
		got = decision{first.Type == certificatesv1.CertificateApproved, fmt.Sprintf("%s: %s", first.Type, first.Message)}
		return true
	})
	return got, failed
}

func (a *Attacker) ask(ctx context.Context, as *rest.Config, signer string, usages []certificatesv1.KeyUsage, request []byte) (*certificatesv1.CertificateSigningRequest, error) {
	api, err := kubernetes.NewForConfig(as)
	if err != nil {
		return nil, err
	}
	return api.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: a.name("request")},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: signer, Usages: usages},
	}, metav1.CreateOptions{})
}

func newRequest(wanted x509.CertificateRequest) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &wanted, key)
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), err
}

// asKubelet is the tenant's API as the worker's kubelet reaches it.
func (a *Attacker) asKubelet() (*rest.Config, error) {
	content, err := a.Worker.Exec(context.Background(), nil, "cat", "/var/lib/kubelet/pki/kubelet-client-current.pem")
	if err != nil {
		return nil, fmt.Errorf("read kubelet's certificate: %w", err)
	}
	config := rest.AnonymousClientConfig(a.Config)
	config.CertData, config.KeyData = content, content
	return config, nil
}
