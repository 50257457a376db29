//go:build envtest

package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// signRequests signs what is approved, as a controller manager does.
func signRequests(t *testing.T) {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			all := &certificatesv1.CertificateSigningRequestList{}
			_ = environment.Client.List(ctx, all) // None are signed in this round where it fails.
			for i := range all.Items {
				request := &all.Items[i]
				if len(request.Status.Conditions) == 0 || len(request.Status.Certificate) > 0 {
					continue
				}
				block, _ := pem.Decode(request.Spec.Request)
				asked, err := x509.ParseCertificateRequest(block.Bytes)
				if err != nil {
					return false, err
				}
				until := time.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second)
				der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: asked.Subject, NotAfter: until}, ca, asked.PublicKey, key)
				if err != nil {
					return false, err
				}
				request.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
				_ = environment.Client.Status().Update(ctx, request)
			}
			return false, nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func TestAShortLivedKubeconfigHasAKeyOfItsOwn(t *testing.T) {
	s := newSite(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	for says, arguments := range map[string][]string{
		"say how long it shall live by --for":      {"--group", "operators"},
		"--output is of a short-lived kubeconfig":  {"--output", "-"},
		"--for needs a --group":                    {"--for", "8h"},
		"--for 1m0s is not possible":               {"--for", "1m", "--group", "operators"},
		"choose from 10m0s to 8760h0m0s":           {"--for", "8761h", "--group", "operators"},
		"--group system:masters: Kubernetes signs": {"--for", "8h", "--group", "system:masters"},
	} {
		s.expect(2, []string{says}, append([]string{"kubeconfig", "blue"}, arguments...)...)
	}

	// The management cluster plays the tenant, whose API is its own.
	stored := must[*clientcmdapi.Config](t)(clientcmd.LoadFromFile(kubeconfig))
	content := must[[]byte](t)(clientcmd.Write(*stored))
	s.create(&corev1.Secret{ObjectMeta: s.named("blue-kubeconfig"), Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": content}})
	signRequests(t)
	s.expect(0, []string{"blue.kubeconfig is written", "It is good until", "for group operators, guests"}, "kubeconfig", "blue", "--for", "8h", "--group", "operators", "--group", "guests")

	made := must[*clientcmdapi.Config](t)(clientcmd.LoadFromFile(filepath.Join(home, ".kube", "kok", "blue.kubeconfig")))
	user := made.AuthInfos[made.Contexts[made.CurrentContext].AuthInfo]
	if len(made.AuthInfos) != 1 || user == nil {
		t.Fatalf("it has users %v", made.AuthInfos)
	}
	found := must[[]*x509.Certificate](t)(cert.ParseCertsPEM(user.ClientCertificateData))[0]
	if !slices.Equal(found.Subject.Organization, []string{"guests", "operators"}) || !strings.HasPrefix(found.Subject.CommonName, "kok:") {
		t.Errorf("its certificate is for %s", found.Subject)
	}
	if lives := time.Until(found.NotAfter); lives > 8*time.Hour || lives < 7*time.Hour {
		t.Errorf("it lives for %s", lives)
	}
	for name, was := range stored.AuthInfos {
		if string(user.ClientKeyData) == string(was.ClientKeyData) {
			t.Errorf("it has the key of %s", name)
		}
	}
	// For another machine it leads where the administrator's does.
	elsewhere := must[*clientcmdapi.Config](t)(clientcmd.Load([]byte(s.expect(0, nil, "kubeconfig", "blue", "--for", "1h", "--group", "operators", "--output", "-"))))
	if was, is := stored.Clusters[stored.Contexts[stored.CurrentContext].Cluster], elsewhere.Clusters[elsewhere.Contexts[elsewhere.CurrentContext].Cluster]; is.Server != was.Server {
		t.Errorf("it leads to %s, and not to %s", is.Server, was.Server)
	}
	if len(elsewhere.AuthInfos) != 1 {
		t.Errorf("it has users %v", elsewhere.AuthInfos)
	}
	file := filepath.Join(home, "operators.kubeconfig")
	must[any](t)(nil, os.WriteFile(file, nil, 0o644)) // A file that all can read must not get the key.
	s.expect(0, []string{file + " is written. It is good until"}, "kubeconfig", "blue", "--for", "1h", "--group", "operators", "--output", file)
	if info := must[os.FileInfo](t)(os.Stat(file)); info.Mode() != 0o600 || info.Size() == 0 {
		t.Errorf("%s has %v and %d bytes", file, info.Mode(), info.Size())
	}
	// It is brought up to date, and a person's own kubeconfig is not replaced.
	s.expect(0, []string{file + " is written"}, "kubeconfig", "blue", "--for", "1h", "--group", "operators", "--output", file)
	own := filepath.Join(home, "config")
	must[any](t)(nil, os.WriteFile(own, content, 0o600))
	s.expect(2, []string{"--output " + own + " is there", "nothing is replaced"}, "kubeconfig", "blue", "--for", "1h", "--group", "operators", "--output", own)
	if after := must[[]byte](t)(os.ReadFile(own)); string(after) != string(content) {
		t.Errorf("%s is replaced", own)
	}
	left := &certificatesv1.CertificateSigningRequestList{}
	if err := environment.Client.List(t.Context(), left); err != nil || len(left.Items) > 0 {
		t.Errorf("%d requests are left: %v", len(left.Items), err)
	}
}
