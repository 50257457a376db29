package apiservers

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/processes"
)

func TestANodesKubeconfigHasTheCertificateOfThatNode(t *testing.T) {
	rendered, err := processes.Render(t.Context(), configuration(t.TempDir(), 1))
	if err != nil {
		t.Fatal(err)
	}
	cluster := &Cluster{Keys: rendered.Keys}
	path, err := cluster.NodeKubeconfig(t.TempDir(), "worker-7")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	subject := pair.Leaf.Subject
	if subject.CommonName != "system:node:worker-7" || !slices.Equal(subject.Organization, []string{"system:nodes"}) {
		t.Errorf("the certificate is of %s", subject)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
}
