package probe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// authority makes certificates of one CA.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(der)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return authority{certificate, key}
}

func (a authority) client(t *testing.T) Credential {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "client"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return Credential{Name: a.certificate.Subject.CommonName, Certificate: &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
}

func serve(t *testing.T, requirement tls.ClientAuthType, trusted authority) string {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(trusted.certificate)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 && r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	server.TLS = &tls.Config{ClientAuth: requirement, ClientCAs: pool}
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "https://")
}

func TestWhoIsLetIn(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	strict := serve(t, tls.RequireAndVerifyClientCert, ours)
	lenient := serve(t, tls.VerifyClientCertIfGiven, ours)
	for name, test := range map[string]struct {
		address    string
		credential Credential
		refused    bool
	}{
		"the right certificate":                            {strict, ours.client(t), false},
		"a certificate of another CA":                      {strict, theirs.client(t), true},
		"no certificate where one is required":             {strict, Credential{}, true},
		"nothing where a credential is wanted":             {lenient, Credential{}, true},
		"the right token":                                  {lenient, Bearer("token", "good\n"), false},
		"a wrong token":                                    {lenient, Bearer("token", "bad"), true},
		"a certificate of another CA where none is needed": {lenient, theirs.client(t), true},
	} {
		t.Run(name, func(t *testing.T) {
			answer := TLS(t.Context(), test.address, test.credential, "/")
			if answer.Refused() != test.refused {
				t.Errorf("refused is %v: %s", answer.Refused(), answer)
			}
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		if answer := Plain(t.Context(), strict, "/"); !answer.Refused() {
			t.Errorf("a server of TLS answered a request without: %s", answer)
		}
	})
}

func TestSilenceAndPlainServersAreNoRefusal(t *testing.T) {
	g := NewWithT(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer silent.Close() //nolint:errcheck // a test's listener
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	g.Expect(TLS(ctx, silent.Addr().String(), Credential{}, "/").Refused()).To(BeFalse())

	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	g.Expect(Plain(t.Context(), strings.TrimPrefix(plain.URL, "http://"), "/").Refused()).To(BeFalse())
}

func TestTheLastAnswerHidesNothing(t *testing.T) {
	taken, refused, silent := Answer{Status: http.StatusOK}, Answer{Status: http.StatusUnauthorized}, Answer{Err: context.DeadlineExceeded}
	forbidden := Answer{Status: http.StatusForbidden}
	long, past := time.Now().Add(time.Hour), time.Now()
	for name, test := range map[string]struct {
		answers []Answer
		until   time.Time
		want    Answer
	}{
		"a refusal":                            {[]Answer{refused, taken}, long, refused},
		"taken when it may not be":             {[]Answer{taken, refused}, past, taken},
		"known when it may not be":             {[]Answer{forbidden, refused}, past, forbidden},
		"remembered for a while":               {[]Answer{taken, refused}, long, refused},
		"silent at first, and taken then":      {[]Answer{silent, taken, refused}, past, taken},
		"silent at first, and refused then":    {[]Answer{silent, refused}, past, refused},
		"refused as the connection was closed": {[]Answer{{Err: io.EOF}}, past, Answer{Err: io.EOF}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			last := Last(t.Context(), test.until, func() Answer {
				asked++
				return test.answers[asked-1]
			})
			if last != test.want {
				t.Errorf("%s, want %s", last, test.want)
			}
		})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if last := Last(ended, long, func() Answer { return silent }); last != silent {
		t.Errorf("%s when there is no more time", last)
	}
}
