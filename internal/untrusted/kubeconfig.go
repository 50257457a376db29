package untrusted

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config reads a kubeconfig. The writer of its Secret must not run programs or read files with the manager, nor
// lead it to a server that cannot prove its identity: a kubeconfig that would is refused. Errors say what to change
// and quote nothing of the content. Answers and errors of servers that the configuration leads to quote none
// of its secrets either.
func Config(kubeconfig []byte) (*rest.Config, error) {
	return read(kubeconfig, func(*clientcmdapi.Cluster) error { return nil })
}

// TenantConfig reads the kubeconfig of a tenant likewise. It has no proxy: that of the manager's environment alone is used.
func TenantConfig(kubeconfig []byte) (*rest.Config, error) {
	return read(kubeconfig, func(cluster *clientcmdapi.Cluster) error {
		if cluster.ProxyURL != "" {
			return errors.New("proxy-url is refused in the kubeconfig of a tenant: set the proxy in the environment of the manager")
		}
		return nil
	})
}

// WithToken is a kubeconfig that Config takes with another token of its user, and all else as it was.
func WithToken(kubeconfig []byte, token string) ([]byte, error) {
	parsed, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("it cannot be read as a kubeconfig")
	}
	current := parsed.Contexts[parsed.CurrentContext]
	if current == nil || parsed.AuthInfos[current.AuthInfo] == nil {
		return nil, errors.New("its current context names no user")
	}
	parsed.AuthInfos[current.AuthInfo].Token = token
	return clientcmd.Write(*parsed)
}

func read(kubeconfig []byte, further func(*clientcmdapi.Cluster) error) (*rest.Config, error) {
	parsed, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("it cannot be read as a kubeconfig") // The cause would quote it.
	}
	current := parsed.Contexts[parsed.CurrentContext]
	if current == nil {
		return nil, errors.New("its current-context names no context: set it to one of contexts")
	}
	cluster, user := parsed.Clusters[current.Cluster], parsed.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return nil, errors.New("its current context names a cluster or a user that is not in it: add both")
	}
	if err := errors.Join(validateCluster(cluster), further(cluster), validateUser(user)); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.New("its certificates or keys cannot be used")
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		return nil, errors.New("its certificates or keys cannot be used: certificate-authority-data, client-certificate-data and client-key-data must be PEM, and the last two a pair")
	}
	if config.Proxy == nil {
		// With a function client-go keeps no transport beyond its client.
		config.Proxy = utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)
	}
	secrets := secretsOf(config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return redacting(inner, secrets) })
	return config, nil
}

func validateCluster(cluster *clientcmdapi.Cluster) error {
	var problems []error
	if server, err := url.Parse(cluster.Server); err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil {
		problems = append(problems, errors.New("server must be an https URL without a user"))
	}
	if cluster.InsecureSkipTLSVerify {
		problems = append(problems, errors.New("insecure-skip-tls-verify is refused: put the CA into certificate-authority-data"))
	}
	if cluster.CertificateAuthority != "" {
		problems = append(problems, file("certificate-authority"))
	}
	if proxy, err := url.Parse(cluster.ProxyURL); err != nil || cluster.ProxyURL != "" && proxy.Host == "" {
		problems = append(problems, errors.New("proxy-url must be a URL"))
	}
	return errors.Join(problems...)
}

func validateUser(user *clientcmdapi.AuthInfo) error {
	var problems []error
	if user.Exec != nil {
		problems = append(problems, errors.New("exec is refused, it would run a program in the manager: use a token, or client-certificate-data and client-key-data"))
	}
	if user.AuthProvider != nil {
		problems = append(problems, errors.New("auth-provider is refused: use a token, or client-certificate-data and client-key-data"))
	}
	for _, path := range []struct{ field, value string }{
		{"tokenFile", user.TokenFile}, {"client-certificate", user.ClientCertificate}, {"client-key", user.ClientKey},
	} {
		if path.value != "" {
			problems = append(problems, file(path.field))
		}
	}
	return errors.Join(problems...)
}

func file(field string) error {
	instead := field + "-data"
	if field == "tokenFile" {
		instead = "token"
	}
	return fmt.Errorf("%s is refused, it would read a file of the manager: use %s", field, instead)
}
