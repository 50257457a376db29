package manager

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// certificateIn writes a certificate for a name, and returns a pool that trusts only this certificate.
func certificateIn(t *testing.T, folder, name string) *x509.CertPool {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := cert.NewPoolFromBytes(certificate)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// A scraper can verify the certificate that the manager was given, also after another one took its place.
func TestMetricsAreServedByTheCertificateOfTheirFolder(t *testing.T) {
	folder, address := t.TempDir(), loopback.Free(t).String()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	nobody := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"a": {Server: "https://" + loopback.Free(t).String()}},
		Contexts: map[string]*clientcmdapi.Context{"a": {Cluster: "a"}}, CurrentContext: "a",
	}
	if err := clientcmd.WriteToFile(nobody, kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	trusts := certificateIn(t, folder, "kok-metrics")
	mgr, err := parse(t, "--health-addr=0", "--diagnostics-address="+address, "--metrics-cert-dir="+folder).New("test", runtime.NewScheme(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	}()
	for _, step := range []string{"at first", "after it was renewed"} {
		var last error
		verifies := func(context.Context) (bool, error) {
			var connection *tls.Conn
			if connection, last = tls.Dial("tcp", address, &tls.Config{RootCAs: trusts, ServerName: "kok-metrics"}); last == nil {
				return true, connection.Close()
			}
			return false, nil
		}
		if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, verifies); err != nil {
			t.Fatalf("%s nobody verifies it: %v", step, last)
		}
		trusts = certificateIn(t, folder, "kok-metrics")
	}
}
