//go:build envtest

package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/tokens"
)

// tenantToken is the Secret by which the tenant knows the machine's token.
func (w *worker) tenantToken() (*corev1.Secret, error) {
	token := &corev1.Secret{}
	err := environment.Client.Get(w.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "bootstrap-token-" + w.config().Status.BootstrapToken.ID}, token)
	return token, err
}

// joins is what the core writes once it has found the machine's Node.
func (w *worker) joins(addresses ...clusterv1.MachineAddress) {
	w.t.Helper()
	if err := environment.Client.Get(w.t.Context(), w.key, w.machine); err != nil {
		w.t.Fatal(err)
	}
	w.machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "node-" + w.key.Namespace}
	w.machine.Status.Addresses = addresses
	w.machine.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	if err := environment.Client.Status().Update(w.t.Context(), w.machine); err != nil {
		w.t.Fatal(err)
	}
}

func TestATokenLivesUntilTheMachineHasJoined(t *testing.T) {
	w := up(t)
	recorded, err := cloudinit.Token(w.secret().Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	token, err := w.tenantToken()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(token.Data["token-id"]) + "." + string(token.Data["token-secret"]); got != recorded {
		t.Error("the tenant has another token than the bootstrap data")
	}
	w.joins()
	w.eventually("the token is revoked", func() bool {
		_, err := w.tenantToken()
		return apierrors.IsNotFound(err)
	})
}

// withToken asks the tenant who the holder of a token is.
func withToken(t *testing.T, token string) (authenticationv1.UserInfo, error) {
	t.Helper()
	config := rest.AnonymousClientConfig(environment.Config)
	config.BearerToken = token
	holder, err := client.New(config, client.Options{Scheme: environment.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	err = holder.Create(t.Context(), review)
	return review.Status.UserInfo, err
}

// TestATokenIsRefusedOnceItExpiredOrItsMachineJoined asks the API server itself.
func TestATokenIsRefusedOnceItExpiredOrItsMachineJoined(t *testing.T) {
	w := up(t)
	recorded, err := cloudinit.Token(w.secret().Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	accepted := func() bool {
		user, err := withToken(t, recorded)
		if err != nil && !apierrors.IsUnauthorized(err) {
			t.Fatal(err)
		}
		if err == nil && (user.Username != "system:bootstrap:"+tokens.ID(recorded) || !slices.Contains(user.Groups, tokens.Group)) {
			t.Fatalf("its holder is %+v", user)
		}
		return err == nil
	}
	expires := func(at time.Time) {
		token, err := w.tenantToken()
		if err != nil {
			t.Fatal(err)
		}
		token.Data["expiration"] = []byte(at.UTC().Format(time.RFC3339))
		if err := environment.Client.Update(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("the token is accepted", accepted)
	expires(time.Now().Add(-time.Minute))
	w.eventually("an expired token is refused", func() bool { return !accepted() })
	expires(time.Now().Add(time.Hour))
	w.eventually("it is accepted again", accepted)
	w.joins()
	w.eventually("a token that was used is refused", func() bool { return !accepted() })
}

func TestTheAPIServersAreSeedsOfTheLoadBalancer(t *testing.T) {
	configuration := files(t, up(t))["/etc/kok-apiserver-lb/config.yaml"]
	address, err := url.Parse(environment.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(configuration, ":"+address.Port()+"\n") {
		t.Errorf("the API server's port %s is not in %s", address.Port(), configuration)
	}
}

// The manager watches the Secret with the CA, and has the rights of an installation.
func TestAMachineThatWaitsForAHostFollowsARotationOfTheClusterCA(t *testing.T) {
	w := up(t)
	authority := &corev1.Secret{}
	if err := environment.Client.Get(t.Context(), client.ObjectKey{Namespace: w.key.Namespace, Name: "blue-ca"}, authority); err != nil {
		t.Fatal(err)
	}
	both := string(authority.Data["tls.crt"]) + string(authority.Data["tls.crt"])
	authority.Data["trusted.crt"] = []byte(both)
	if err := environment.Client.Update(t.Context(), authority); err != nil {
		t.Fatal(err)
	}
	w.eventually("its bootstrap data trusts both CAs", func() bool { return files(t, w)[cloudinit.CAFile] == both })
}

func TestWaitingEndsByWatching(t *testing.T) {
	w := newWorker(t, func(c *bootstrapv1.KOKConfig) {
		c.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", Content: ptr.To("a")}}
	})
	authority := &corev1.Secret{}
	key := client.ObjectKey{Namespace: w.key.Namespace, Name: "blue-ca"}
	if err := environment.Client.Get(t.Context(), key, authority); err != nil {
		t.Fatal(err)
	}
	if err := environment.Client.Delete(t.Context(), authority); err != nil {
		t.Fatal(err)
	}
	w.clusterIsUp()
	w.eventually("it waits for the certificate authority", func() bool {
		for _, condition := range w.config().Status.Conditions {
			if condition.Reason == bootstrapv1.WaitingForCAReason {
				return true
			}
		}
		return false
	})
	authority.ResourceVersion, authority.UID = "", ""
	w.create(authority)
	w.eventually("the bootstrap data is there", w.isCreated)
}

// asNode makes a request for a serving certificate as kubelet does, as the user that a node is.
func (w *worker) asNode(name string, addresses ...string) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	template := &x509.CertificateRequest{DNSNames: []string{name}}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	return w.asks("system:node:"+name, []string{"system:nodes", "system:authenticated"}, name, template, certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth)
}

// asJoining makes a request for a node's first client certificate as kubelet does, as the user that a bootstrap token is.
func (w *worker) asJoining(token, name string) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	// Whether such a user may ask is the control plane provider's affair, which is not here.
	groups := []string{"system:masters", "system:bootstrappers", tokens.Group, "system:authenticated"}
	return w.asks("system:bootstrap:"+token, groups, name, &x509.CertificateRequest{}, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth)
}

// asks makes a request for a certificate of a node.
func (w *worker) asks(user string, groups []string, node string, template *x509.CertificateRequest, signer string, usage certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	private, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		w.t.Fatal(err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(private)
	if err != nil {
		w.t.Fatal(err)
	}
	template.Subject = pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
	pem, err := cert.MakeCSRFromTemplate(key, template)
	if err != nil {
		w.t.Fatal(err)
	}
	config := rest.CopyConfig(environment.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	asking, err := client.New(config, client.Options{Scheme: environment.Scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	request := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem, SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}
	if err := asking.Create(w.t.Context(), request); err != nil {
		w.t.Fatal(err)
	}
	return request
}

// decided waits for the decision on a request.
func (w *worker) decided(request *certificatesv1.CertificateSigningRequest) certificatesv1.CertificateSigningRequestCondition {
	w.t.Helper()
	w.eventually("the request "+request.Name+" is decided", func() bool {
		return environment.Client.Get(w.t.Context(), client.ObjectKeyFromObject(request), request) == nil && len(request.Status.Conditions) > 0
	})
	return request.Status.Conditions[0]
}

func TestServingCertificates(t *testing.T) {
	w := up(t)
	name := "node-" + w.key.Namespace
	// The first request comes before Cluster API has found the Node.
	early := w.asNode(name, "192.0.2.1")
	w.joins(clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "192.0.2.1"})
	if decision := w.decided(early); decision.Type != certificatesv1.CertificateApproved || decision.Reason == "" {
		t.Errorf("the machine's own address: %+v", decision)
	}
	if decision := w.decided(w.asNode(name, "192.0.2.1")); decision.Type != certificatesv1.CertificateApproved {
		t.Errorf("a renewal: %+v", decision)
	}
	if decision := w.decided(w.asNode(name, "192.0.2.2")); decision.Type != certificatesv1.CertificateDenied || !strings.Contains(decision.Message, "192.0.2.2") {
		t.Errorf("a foreign address: %+v", decision)
	}
}

// Finding 5: with the rights of the manager's role alone, and without kubeadm's provider.
func TestFinding5AMachineJoinsUnderItsOwnName(t *testing.T) {
	w := up(t)
	token := w.config().Status.BootstrapToken.ID
	if decision := w.decided(w.asJoining(token, w.machine.Name)); decision.Type != certificatesv1.CertificateApproved || !strings.Contains(decision.Message, "Machine worker-1") {
		t.Errorf("its own name: %+v", decision)
	}
	w.joins()
	if decision := w.decided(w.asJoining(token, "another")); decision.Type != certificatesv1.CertificateDenied || !strings.Contains(decision.Message, "and not another") {
		t.Errorf("another name: %+v", decision)
	}
	if decision := w.decided(w.asJoining("zzzzzz", w.machine.Name)); decision.Type != certificatesv1.CertificateDenied {
		t.Errorf("its name with a token of nobody: %+v", decision)
	}
}
