package tenant

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
)

const (
	// LocalServer is where a worker's local load balancer listens. Workers reach the tenant's API
	// there and nowhere else.
	LocalServer = "127.0.0.1:6443"
	// NodeBootstrapTokenGroup is what a bootstrap token must name in auth-extra-groups for a machine
	// to join with it.
	NodeBootstrapTokenGroup = "system:bootstrappers:kubeadm:default-node-token"
)

// Settings are what a tenant's objects depend on.
type Settings struct {
	// ClusterName is the name of the Cluster.
	ClusterName string
	// Version is the Kubernetes version, for example "v1.36.3".
	Version string
	// PodCIDRs may be empty, ServiceCIDRs must not.
	PodCIDRs, ServiceCIDRs []string
	// DNSDomain is services.DefaultDNSDomain if empty.
	DNSDomain string
	// CABundle is the cluster CA's certificate as PEM.
	CABundle []byte
	// Server is the host and port where joining machines reach the API; LocalServer if empty.
	Server string
	// APIServers is the address and port that all API servers share; the zero value when each has its own and
	// writes it into the tenant itself.
	APIServers netip.AddrPort
	// ImageRepository is where kubeadm pulls images from; kubeadm's default if empty.
	ImageRepository string
	// KubeletServerTLSBootstrap makes kubelets request a serving certificate of the cluster CA.
	// Something must approve these requests: Kubernetes itself does not, and until then logs and
	// exec fail.
	KubeletServerTLSBootstrap bool
}

func (s Settings) withDefaults() (Settings, error) {
	if s.Server == "" {
		s.Server = LocalServer
	}
	if s.DNSDomain == "" {
		s.DNSDomain = services.DefaultDNSDomain
	}
	var problems []error
	for name, value := range map[string]string{"cluster name": s.ClusterName, "version": s.Version, "CA bundle": string(s.CABundle)} {
		if value == "" {
			problems = append(problems, fmt.Errorf("%s is empty", name))
		}
	}
	if host, port, err := net.SplitHostPort(s.Server); err != nil || host == "" {
		problems = append(problems, fmt.Errorf("server %q: want host:port", s.Server))
	} else if _, err := netutils.ParsePort(port, false); err != nil {
		problems = append(problems, fmt.Errorf("server %q: want host:port: %w", s.Server, err))
	}
	if _, err := services.DNS(s.ServiceCIDRs); err != nil {
		problems = append(problems, err)
	}
	return s, errors.Join(problems...)
}

// Objects are all objects of the tenant that this package keeps.
func Objects(settings Settings) ([]client.Object, error) {
	settings, err := settings.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("settings of the tenant's objects: %w", err)
	}
	info, err := clusterInfo(settings)
	if err != nil {
		return nil, err
	}
	clusterConfiguration, err := kubeadmConfig(settings)
	if err != nil {
		return nil, err
	}
	kubelet, err := kubeletConfig(settings)
	if err != nil {
		return nil, err
	}
	objects := append([]client.Object{info, clusterConfiguration, kubelet}, rbac()...)
	if settings.APIServers != (netip.AddrPort{}) {
		slice, err := endpointSlice(settings.APIServers)
		if err != nil {
			return nil, err
		}
		objects = append(objects, slice)
	}
	return objects, nil
}

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{names.ManagedByLabel: names.ManagedBy},
	}
}
