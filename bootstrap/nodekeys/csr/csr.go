// Package csr asks the tenant for certificates of a node, as the node itself.
package csr

import (
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
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/clock"
)

const (
	// firstPause and lastPause bound the pause before another request: each leaves an object in the tenant for an hour.
	firstPause = 5 * time.Second
	lastPause  = time.Minute
)

// Purpose is what a certificate of a node is for.
type Purpose struct {
	// Signer is the name of the signer that people and programs know.
	Signer string
	// Usage is the extended usage of the certificate.
	Usage certificatesv1.KeyUsage
}

// Purposes of the certificates of kubelets.
var (
	Client  = Purpose{certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth}
	Serving = Purpose{certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth}
)

// Order is which certificate is asked for.
type Order struct {
	Purpose Purpose
	// Subject is whose it is, DNSNames and IPAddresses where it serves.
	Subject     pkix.Name
	DNSNames    []string
	IPAddresses []net.IP
	// By is the CA that has to sign it.
	By *x509.Certificate
}

// Pair is a certificate with its key, as PEM.
type Pair struct{ Certificate, Key []byte }

// Connect makes a client of the tenant's API: as the node is now, or with another pair.
type Connect func(with *Pair) (certificatesclient.CertificateSigningRequestInterface, error)

// Requests has the requests that are under way, one for each purpose. Their keys are in memory alone: a program that is killed asks again.
type Requests struct {
	Connect Connect
	Clock   clock.PassiveClock

	open   map[Purpose]*request
	pauses map[Purpose]*pause
}

type request struct {
	name string
	uid  types.UID
	key  []byte
}

// pause is why and how long nothing is asked.
type pause struct {
	until  time.Time
	length time.Duration
	why    string
}

// Ask takes the order one step on. It gives the pair when the tenant has signed it; until then it says what it waits for.
func (r *Requests) Ask(ctx context.Context, order Order) (pair *Pair, waits string, err error) {
	if p := r.pauses[order.Purpose]; p != nil && r.Clock.Now().Before(p.until) {
		return nil, p.why, nil
	}
	api, err := r.Connect(nil)
	if err != nil {
		return nil, "", err
	}
	open := r.open[order.Purpose]
	if open == nil {
		if open, err = create(ctx, api, order); err != nil {
			return nil, "", err
		}
		if r.open == nil {
			r.open, r.pauses = map[Purpose]*request{}, map[Purpose]*pause{}
		}
		r.open[order.Purpose] = open
	}
	live, err := api.Get(ctx, open.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && live.UID != open.uid {
		return nil, r.postpone(order.Purpose, fmt.Sprintf("CertificateSigningRequest %s is gone", open.name)), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("get CertificateSigningRequest %s: %w", open.name, err)
	}
	if refused := refusal(live); refused != "" {
		return nil, r.postpone(order.Purpose, refused), nil
	}
	if len(live.Status.Certificate) == 0 {
		return nil, unsigned(live), nil
	}
	pair = &Pair{Certificate: live.Status.Certificate, Key: open.key}
	if err := order.check(pair); err != nil {
		return nil, r.postpone(order.Purpose, fmt.Sprintf("the certificate of CertificateSigningRequest %s is thrown away: %v", open.name, err)), nil
	}
	if err := r.try(ctx, order, open.name, pair); err != nil {
		return nil, r.postpone(order.Purpose, err.Error()), nil
	}
	delete(r.open, order.Purpose)
	delete(r.pauses, order.Purpose)
	return pair, "", nil
}

// postpone gives the request up, and has the next one come later.
func (r *Requests) postpone(purpose Purpose, why string) string {
	length := firstPause
	if before := r.pauses[purpose]; before != nil {
		length = min(2*before.length, lastPause)
	}
	delete(r.open, purpose)
	r.pauses[purpose] = &pause{until: r.Clock.Now().Add(length), length: length, why: why}
	return why
}

// try has an API server take the certificate before kubelet depends on it.
func (r *Requests) try(ctx context.Context, order Order, name string, pair *Pair) error {
	if order.Purpose != Client {
		return nil
	}
	api, err := r.Connect(pair)
	if err != nil {
		return err
	}
	if _, err := api.Get(ctx, name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("the API server does not take the certificate of CertificateSigningRequest %s: %w", name, err)
	}
	return nil
}

func create(ctx context.Context, api certificatesclient.CertificateSigningRequestInterface, order Order) (*request, error) {
	// Kubelet has keys of this kind.
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := keyutil.MarshalPrivateKeyToPEM(private)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: order.Subject, DNSNames: order.DNSNames, IPAddresses: order.IPAddresses,
	}, private)
	if err != nil {
		return nil, fmt.Errorf("make a request for a certificate: %w", err)
	}
	made, err := api.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "kok-node-keys-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateRequestBlockType, Bytes: der}),
			SignerName: order.Purpose.Signer,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, order.Purpose.Usage},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a CertificateSigningRequest of signer %s: %w", order.Purpose.Signer, err)
	}
	return &request{name: made.Name, uid: made.UID, key: key}, nil
}

// refusal says why a request will never be signed; empty when it may be.
func refusal(request *certificatesv1.CertificateSigningRequest) string {
	for _, condition := range request.Status.Conditions {
		if condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed {
			return fmt.Sprintf("CertificateSigningRequest %s is %s: %s", request.Name, condition.Type, condition.Message)
		}
	}
	return ""
}

func unsigned(request *certificatesv1.CertificateSigningRequest) string {
	approved := slices.ContainsFunc(request.Status.Conditions, func(condition certificatesv1.CertificateSigningRequestCondition) bool {
		return condition.Type == certificatesv1.CertificateApproved
	})
	if approved {
		return fmt.Sprintf("CertificateSigningRequest %s is approved, and waits for the tenant's kube-controller-manager to sign it", request.Name)
	}
	return fmt.Sprintf("CertificateSigningRequest %s waits to be approved", request.Name)
}

// check refuses what is not the certificate that was ordered.
func (o Order) check(pair *Pair) error {
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return err
	}
	if loaded.Leaf.Subject.CommonName != o.Subject.CommonName || !slices.Equal(loaded.Leaf.Subject.Organization, o.Subject.Organization) {
		return fmt.Errorf("it is of %s, not of %s", loaded.Leaf.Subject, o.Subject)
	}
	if err := loaded.Leaf.CheckSignatureFrom(o.By); err != nil {
		return errors.New("it is by another CA than that of this phase: the tenant's kube-controller-manager does not sign by that one yet")
	}
	return nil
}
