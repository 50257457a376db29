package apiservers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
)

// AdmitNodes gives nodes the rights that the provider gives them inside a tenant, by the first of the kube-apiservers.
func (c *Cluster) AdmitNodes(ctx context.Context) error {
	config, err := c.Config(c.Servers[0].Address())
	if err != nil {
		return err
	}
	client, err := tenant.NewClient(config)
	if err != nil {
		return err
	}
	objects, err := tenant.Objects(c.inside)
	if err != nil {
		return err
	}
	_, err = tenant.Apply(ctx, client, objects)
	return err
}

// NodeKubeconfig writes the kubeconfig of a node and returns its path. As with kubelet's, the certificate and its key
// are in one file beside it; they live an hour. directory, which exists, is the node's own.
func (c *Cluster) NodeKubeconfig(directory, node string) (string, error) {
	user := "system:node:" + node
	identity, err := c.issuer().ClientTLS(pki.ClusterCA, user, []string{"system:nodes"}, certificates.TenantServerName)
	if err != nil {
		return "", err
	}
	certificate, err := identity.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		return "", err
	}
	parsed, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return "", fmt.Errorf("read the certificate of %s: %w", user, err)
	}
	encoded, err := cert.EncodeCertificates(parsed)
	if err != nil {
		return "", err
	}
	key, err := keyutil.MarshalPrivateKeyToPEM(certificate.PrivateKey)
	if err != nil {
		return "", fmt.Errorf("write the key of %s: %w", user, err)
	}
	both, authority := filepath.Join(directory, "kubelet-client-current.pem"), filepath.Join(directory, "ca.crt")
	content, err := certificates.ComponentKubeconfig(certificates.KubeconfigFile{
		Server: "https://" + tenant.LocalServer, User: user, CAFile: authority, CertFile: both, KeyFile: both,
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(directory, "kubeconfig")
	for file, content := range map[string][]byte{both: append(encoded, key...), authority: c.Keys.ClusterCA.Bundle, path: content} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return "", err
		}
	}
	return path, nil
}
