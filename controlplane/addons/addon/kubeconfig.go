package addon

import (
	"fmt"
	"net/url"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Kubeconfig is how an addon of that name reaches the API as its pod's ServiceAccount: by the worker's own load
// balancer, for it must work before the Service of the API does.
func (in *Input) Kubeconfig(name string) (string, error) {
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: (&url.URL{Scheme: "https", Host: in.Server}).String(), CertificateAuthority: serviceAccount + "/ca.crt",
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {TokenFile: serviceAccount + "/token"}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return "", fmt.Errorf("marshal the kubeconfig of %s: %w", name, err)
	}
	return string(kubeconfig), nil
}
