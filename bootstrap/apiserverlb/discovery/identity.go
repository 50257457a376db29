package discovery

import (
	"crypto/tls"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// user reads the user of a kubeconfig.
func user(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	return config, nil
}

// ClientCertificate reads the client certificate of a kubeconfig's user as it is now. It is nil when
// the user has another credential, such as a token.
func ClientCertificate(kubeconfig string) (*tls.Certificate, error) {
	config, err := user(kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("read the client certificate of kubeconfig %s: %w", kubeconfig, err)
	}
	if len(config.CertData) == 0 {
		return nil, nil
	}
	certificate, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return nil, fmt.Errorf("read the client certificate of kubeconfig %s: %w", kubeconfig, err)
	}
	return &certificate, nil
}
