package csr

import (
	"fmt"
	"time"

	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// timeout bounds each request to the tenant.
const timeout = 20 * time.Second

// AsNode connects by kubelet's kubeconfig. It reads that anew each time, with the files that it names.
func AsNode(kubeconfig func() string, userAgent string) Connect {
	return func(with *Pair) (certificatesclient.CertificateSigningRequestInterface, error) {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig())
		if err != nil {
			return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig(), err)
		}
		if err := rest.LoadTLSFiles(config); err != nil {
			return nil, fmt.Errorf("read the files that kubeconfig %s names: %w", kubeconfig(), err)
		}
		// What is read is data from here on: a client that follows files would outlive this one.
		config.CAFile, config.CertFile, config.KeyFile = "", "", ""
		if with != nil {
			config.CertData, config.KeyData = with.Certificate, with.Key
		}
		config.UserAgent, config.Timeout = userAgent, timeout
		client, err := certificatesclient.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("make a client of kubeconfig %s: %w", kubeconfig(), err)
		}
		return client.CertificateSigningRequests(), nil
	}
}
