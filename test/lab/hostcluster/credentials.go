package hostcluster

import (
	"fmt"
	"net"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// Users that certificates name.
const (
	kubeletClientUser = "kok-lab:kube-apiserver"
	adminUser         = "kok-lab:admin"
)

// credentials are the host cluster's authorities; etcd and the front proxy have their own, so that no client
// certificate of the one is taken by the other.
type credentials struct {
	pki
	cluster, etcd, frontProxy *pair
	tokenKey, tokenPublic     []byte
	endpoint                  string
	controlPlane              *host.Host
	network                   host.Network
}

func newCredentials(dir string, network host.Network, controlPlane *host.Host) (*credentials, error) {
	c := &credentials{
		pki:          pki{dir: dir},
		network:      network,
		controlPlane: controlPlane,
		endpoint:     fmt.Sprintf("https://%s:%d", controlPlane.Address, apiPort),
	}
	var err error
	for _, a := range []struct {
		name string
		to   **pair
	}{{"ca", &c.cluster}, {"etcd-ca", &c.etcd}, {"front-proxy-ca", &c.frontProxy}} {
		if *a.to, err = c.authority(a.name); err != nil {
			return nil, err
		}
	}
	c.tokenKey, c.tokenPublic, err = c.signingKey("service-accounts")
	return c, err
}

// apiserver is the certificate that kube-apiserver serves with.
func (c *credentials) apiserver() (*pair, error) {
	service := c.network.Services.Addr().Next()
	return c.leaf("kube-apiserver", c.cluster, subject{
		user: "kube-apiserver", server: true,
		dns: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost", c.controlPlane.Name},
		ips: []net.IP{service.AsSlice(), c.controlPlane.Address.AsSlice(), net.IPv4(127, 0, 0, 1)},
	})
}

// etcdMember is the certificate of etcd's client and peer listeners.
func (c *credentials) etcdMember() (*pair, error) {
	return c.leaf("etcd", c.etcd, subject{
		user: "etcd", server: true,
		dns: []string{"localhost", c.controlPlane.Name},
		ips: []net.IP{c.controlPlane.Address.AsSlice(), net.IPv4(127, 0, 0, 1)},
	})
}

// kubelet is the serving certificate of a node; its client certificate is in its kubeconfig.
func (c *credentials) kubelet(h *host.Host) (*pair, error) {
	return c.leaf("kubelet-serving-"+h.Name, c.cluster, subject{
		user: "system:node:" + h.Name, groups: []string{"system:nodes"}, server: true,
		dns: []string{h.Name}, ips: []net.IP{h.Address.AsSlice()},
	})
}

// kubeconfig returns a kubeconfig with a client certificate for the user, kept under the name.
func (c *credentials) kubeconfig(name, user string, groups ...string) ([]byte, error) {
	client, err := c.leaf(name, c.cluster, subject{user: user, groups: groups})
	if err != nil {
		return nil, err
	}
	const cluster = "kok-lab"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: c.endpoint, CertificateAuthorityData: c.cluster.cert}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: client.cert, ClientKeyData: client.key}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	config.CurrentContext = cluster
	return clientcmd.Write(*config)
}
