package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/certs"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func TestEnsureRefuses(t *testing.T) {
	other := newWorld(t)
	other.ensure()
	foreignCA := other.Get(other.Management, "blue-ca").Data
	foreignSA := other.Get(other.Management, "blue-sa").Data
	host := names.KeyMaterial("blue")
	for name, test := range map[string]struct {
		edit             func(*world)
		secret, key, has string
	}{
		"a CA that a person replaced": {
			func(w *world) { w.Edit(w.Management, "blue-ca", func(s *corev1.Secret) { s.Data = foreignCA }) },
			"blue-ca", "tls.crt", "delete Secret team/blue-ca",
		},
		"a CA that was deleted and made by a person": {
			func(w *world) {
				w.Delete(w.Management, "blue-ca")
				w.Create(w.Management, "blue-ca", foreignCA)
			}, "blue-ca", "tls.crt", "sha256:",
		},
		"a host copy that a person replaced": {
			func(w *world) {
				w.Edit(w.Host, host, func(s *corev1.Secret) {
					s.Data[CACert], s.Data[CAKey] = foreignCA["tls.crt"], foreignCA["tls.key"]
				})
			}, "blue-ca", "tls.crt", "not the one in Secret team/" + host,
		},
		"a service account key that a person replaced": {
			func(w *world) { w.Edit(w.Management, "blue-sa", func(s *corev1.Secret) { s.Data = foreignSA }) },
			"blue-sa", "tls.crt", "not supported",
		},
		"an encryption key that a person replaced": {
			func(w *world) {
				w.Edit(w.Management, "blue-encryption", func(s *corev1.Secret) { s.Data[EncryptionKey] = make([]byte, 32) })
			}, "blue-encryption", EncryptionKey, "not supported",
		},
		"an encryption key of the wrong size": {
			func(w *world) {
				w.Edit(w.Host, host, func(s *corev1.Secret) { s.Data[EncryptionKey] = []byte("short") })
			}, host, EncryptionKey, "5 bytes",
		},
		"a certificate that is none": {
			func(w *world) {
				w.Edit(w.Management, "blue-etcd", func(s *corev1.Secret) { s.Data["tls.crt"] = []byte("hello") })
			}, "blue-etcd", "tls.crt", "no PEM certificate",
		},
		"a key that is none": {
			func(w *world) {
				w.Edit(w.Host, host, func(s *corev1.Secret) { s.Data[EtcdEventsCAKey] = []byte("hello") })
			}, host, EtcdEventsCAKey, "no PEM private key",
		},
		"a key that belongs to another certificate": {
			func(w *world) {
				w.Edit(w.Management, "blue-proxy", func(s *corev1.Secret) { s.Data["tls.key"] = foreignCA["tls.key"] })
			}, "blue-proxy", "tls.key", "does not belong",
		},
		"a public key that belongs to another": {
			func(w *world) {
				w.Edit(w.Host, host, func(s *corev1.Secret) { s.Data[ServiceAccountPub] = foreignSA["tls.crt"] })
			}, host, ServiceAccountKey, "does not belong",
		},
		"a certificate that is no CA": {
			func(w *world) {
				w.Edit(w.Management, "blue-ca", func(s *corev1.Secret) { s.Data["tls.crt"], s.Data["tls.key"] = leafPair(w.t, w.ensure().ClusterCA) })
			}, "blue-ca", "tls.crt", "not a certificate authority",
		},
		"half of another pair where the rest is missing": {
			func(w *world) {
				w.Edit(w.Host, host, func(s *corev1.Secret) { s.Data[CACert] = foreignCA["tls.crt"]; delete(s.Data, CAKey) })
			}, host, CACert, "differs",
		},
		"halves that are left of both copies": {
			func(w *world) {
				w.Edit(w.Host, host, func(s *corev1.Secret) { delete(s.Data, CAKey) })
				w.Edit(w.Management, "blue-ca", func(s *corev1.Secret) { delete(s.Data, "tls.key") })
			}, "blue-ca", "tls.key", "no other copy",
		},
		"half of a person's Secret": {
			func(w *world) {
				w.Edit(w.Management, "blue-ca", func(s *corev1.Secret) { s.Labels = nil; delete(s.Data, "tls.key") })
			}, "blue-ca", "tls.key", "not made by this controller",
		},
	} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/running=%t", name, running), func(t *testing.T) {
				w := newWorld(t)
				w.ensure()
				test.edit(w)
				w.running = running
				writes := w.Writes.Load()
				_, err := w.store.Ensure(t.Context(), w.request())
				var invalid *InvalidError
				if !errors.As(err, &invalid) {
					t.Fatalf("err = %v, want InvalidError", err)
				}
				if invalid.Location.Name != test.secret || invalid.DataKey != test.key || !strings.Contains(err.Error(), test.has) {
					t.Errorf("err = %v", err)
				}
				if n := w.Writes.Load(); n != writes {
					t.Errorf("wrote %d times", n-writes)
				}
			})
		}
	}
}

// leafPair is a certificate by a CA that is no CA, and its key.
func leafPair(t *testing.T, issuer CA) (certificate, key []byte) {
	t.Helper()
	signer, err := certs.NewSigner(KeyAlgorithm)
	if err != nil {
		t.Fatal(err)
	}
	config := certs.Config{CommonName: "x", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	leaf, err := config.NewSignedCert(signer, issuer.Certificate, issuer.Key)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = certs.EncodePrivateKeyPEMFromSigner(signer); err != nil {
		t.Fatal(err)
	}
	return certs.EncodeCertPEM(leaf), key
}

func TestEnsureRemediesWork(t *testing.T) {
	foreign := newWorld(t)
	foreign.ensure()
	data := foreign.Get(foreign.Management, "blue-ca").Data
	w := newWorld(t)
	before := w.ensure()
	w.running = true
	w.Edit(w.Management, "blue-ca", func(s *corev1.Secret) { s.Data = data })
	w.Delete(w.Management, "blue-ca")
	same(t, before, w.ensure())
	w.Edit(w.Host, names.KeyMaterial("blue"), func(s *corev1.Secret) { s.Data[CACert] = []byte("damaged") })
	w.Edit(w.Host, names.KeyMaterial("blue"), func(s *corev1.Secret) { delete(s.Data, CACert); delete(s.Data, CAKey) })
	same(t, before, w.ensure())
	w.settled()
}
