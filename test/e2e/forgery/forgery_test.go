package forgery

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// authority makes a CA as a tenant's are made. All have one name.
func authority(t *testing.T) (CA, *certs.KeyPair) {
	t.Helper()
	made := secret.Certificate{Purpose: secret.ClusterCA, KeyEncryptionAlgorithm: pki.KeyAlgorithm}
	if err := made.Generate(); err != nil {
		t.Fatal(err)
	}
	ca, err := ReadCA(made.KeyPair.Cert, made.KeyPair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return ca, made.KeyPair
}

func TestACertificateIsTakenWhereItsCAIsTrustedAlone(t *testing.T) {
	former, formerPEM := authority(t)
	_, nextPEM := authority(t)
	forged, err := former.Like(&x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, DNSNames: []string{"kubernetes"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, bundle := range map[string][]byte{"the former CA": formerPEM.Cert, "both": append(append([]byte{}, nextPEM.Cert...), formerPEM.Cert...)} {
		if err := Trusts(bundle, forged, "kubernetes"); err != nil {
			t.Errorf("who trusts %s refuses the server: %v", name, err)
		}
	}
	var unknown x509.UnknownAuthorityError
	if err := Trusts(nextPEM.Cert, forged, "kubernetes"); !errors.As(err, &unknown) {
		t.Errorf("who trusts the next CA, which has the same name: %v", err)
	}
	if err := Trusts(formerPEM.Cert, forged, "elsewhere"); err == nil {
		t.Error("a server has a name that its certificate has not")
	}
	if err := Trusts(nil, forged, "kubernetes"); err == nil {
		t.Error("an empty bundle trusts a server")
	}
	if err := Trusts(formerPEM.Cert, tls.Certificate{}, "kubernetes"); err == nil {
		t.Error("a server needs no certificate")
	}
}

func TestAClientsCertificateIsForItsUser(t *testing.T) {
	ca, _ := authority(t)
	forged, err := ca.Client("attacker", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate)
	if _, err := forged.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if subject := forged.Leaf.Subject; subject.CommonName != "attacker" || len(subject.Organization) != 1 || subject.Organization[0] != "system:masters" {
		t.Errorf("it is of %s", subject)
	}
}

func TestATokenSaysWhatTheGenuineOneSaysByTheKey(t *testing.T) {
	_, former := authority(t)
	_, next := authority(t)
	first := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": "system:serviceaccount:a:b", "iat": 1767225600, "exp": 1767229200, "kubernetes.io": map[string]any{"namespace": "a"}})
	first.Header["kid"] = "next"
	genuine, err := first.SignedString(private(t, next.Key))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := Token(genuine, former.Key)
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.MapClaims{}
	token, err := jwt.NewParser(jwt.WithJSONNumber()).ParseWithClaims(forged, claims, func(*jwt.Token) (any, error) { return private(t, former.Key).Public(), nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, names := token.Header["kid"]; names {
		t.Error("it names a key")
	}
	end, err := claims.GetExpirationTime()
	if err != nil || time.Until(end.Time) < time.Hour {
		t.Errorf("it ends at %v: %v", end, err)
	}
	if claims["sub"] != "system:serviceaccount:a:b" || claims["kubernetes.io"].(map[string]any)["namespace"] != "a" {
		t.Errorf("it says %v", claims)
	}
	for name, bad := range map[string]func() error{
		"no token": func() error { _, err := Token("x", former.Key); return err },
		"no key":   func() error { _, err := Token(genuine, nil); return err },
		"no CA":    func() error { _, err := ReadCA(nil, former.Key); return err },
		"no CA's":  func() error { _, err := ReadCA(former.Cert, nil); return err },
	} {
		if bad() == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

func private(t *testing.T, keyPEM []byte) *ecdsa.PrivateKey {
	t.Helper()
	key, err := certs.DecodePrivateKeyPEM(keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return key.(*ecdsa.PrivateKey)
}
