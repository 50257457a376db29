//go:build lab

package adminmachine

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/apiservers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// count is how many API servers there are.
const count = 3

// namespace of the clusters.
const namespace = "team"

// startServers starts API servers at addresses of the other host, and leads the machine there.
func (s *site) startServers() *apiservers.Cluster {
	s.Helper()
	cache, err := artifacts.CacheDir()
	s.Expect(err).NotTo(HaveOccurred())
	programs, err := artifacts.EnsureAPIServer(s.ctx, cache, progress(s.T))
	s.Expect(err).NotTo(HaveOccurred())
	assets := s.TempDir()
	for _, program := range []string{programs.Etcd, programs.KubeAPIServer} {
		s.Expect(os.Symlink(program, filepath.Join(assets, filepath.Base(program)))).To(Succeed())
	}
	var cluster *apiservers.Cluster
	s.Expect(s.servers.InNetwork(func() error {
		if cluster, err = apiservers.Start(s.ctx, assets, s.TempDir(), count); err != nil {
			return err
		}
		for _, server := range cluster.Servers {
			if err := server.Start(); err != nil {
				return err
			}
		}
		return nil
	})).To(Succeed())
	s.Cleanup(cluster.Close)
	s.route()
	for _, server := range cluster.Servers {
		s.Eventually(s.ctx, func() ([]string, error) { return s.listed(cluster, server) }).WithTimeout(patience).Should(HaveLen(count), "listed by %s", server.Address())
	}
	return cluster
}

// route leads the machine to the API servers: their addresses are not of its own network.
func (s *site) route() {
	s.root("ip", "route", "replace", isolation.Prefix.String(), "via", s.servers.Address.String())
}

// lose takes an API server away with its address, as the loss of its host does.
func (s *site) lose(server *apiservers.Server) {
	s.Helper()
	server.Kill()
	s.Expect(s.servers.InNetwork(server.Vanish)).To(Succeed())
}

// config reaches an API server from the machine's own network.
func (s *site) config(cluster *apiservers.Cluster, server *apiservers.Server) *rest.Config {
	s.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(s.admin(cluster, "management", "https://"+server.Address(), certificates.TenantServerName))
	s.Expect(err).NotTo(HaveOccurred())
	config.Dial = s.machine.Dial
	return config
}

func (s *site) client(cluster *apiservers.Cluster, server *apiservers.Server) client.Client {
	s.Helper()
	made, err := client.New(s.config(cluster, server), client.Options{})
	s.Expect(err).NotTo(HaveOccurred())
	return made
}

// listed are the API servers that one of them lists.
func (s *site) listed(cluster *apiservers.Cluster, server *apiservers.Server) (addresses []string, err error) {
	reader, err := client.New(s.config(cluster, server), client.Options{})
	if err != nil {
		return nil, err
	}
	slice := &discoveryv1.EndpointSlice{}
	if err := reader.Get(s.ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, slice); err != nil {
		return nil, err
	}
	for _, endpoint := range slice.Endpoints {
		addresses = append(addresses, endpoint.Addresses...)
	}
	return addresses, nil
}

// manage makes a management cluster of one of the API servers, which has what the providers keep of a tenant: the Secret
// with its kubeconfig, whose server is nowhere, and the pods of its API servers on the host network.
func (s *site) manage(cluster *apiservers.Cluster, tenants ...string) {
	s.Helper()
	first := cluster.Servers[0]
	writer := s.client(cluster, first)
	create := func(object client.Object) { s.Expect(writer.Create(s.ctx, object)).To(Succeed()) }
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	for _, tenant := range tenants {
		secret := kubeconfig.GenerateSecretWithOwner(client.ObjectKey{Namespace: namespace, Name: tenant},
			s.admin(cluster, tenant, "https://10.254.0.9:6443", ""), metav1.OwnerReference{})
		secret.OwnerReferences = nil // There is no Cluster.
		create(secret)
		for _, server := range cluster.Servers {
			create(s.pod(tenant, server))
			pod := s.pod(tenant, server)
			s.Expect(writer.Get(s.ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			pod.Status.HostIP, _, _ = net.SplitHostPort(server.Address())
			pod.Status.HostIPs = []corev1.HostIP{{IP: pod.Status.HostIP}}
			s.Expect(writer.Status().Update(s.ctx, pod)).To(Succeed())
		}
	}
	management := "/home/" + person + "/management.kubeconfig"
	content := s.admin(cluster, "management", "https://"+first.Address(), certificates.TenantServerName)
	s.Expect(s.machine.WriteFile(management, content, 0o600)).To(Succeed())
	s.root("chown", person+":", management)
}

func (s *site) pod(tenant string, server *apiservers.Server) *corev1.Pod {
	address := netip.MustParseAddrPort(server.Address())
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: tenant + "-kube-apiserver-" + strings.ReplaceAll(address.Addr().String(), ".", "-"),
			Labels: names.ComponentLabels(client.ObjectKey{Namespace: namespace, Name: tenant}, names.KubeAPIServer),
		},
		Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{
			Name: "kube-apiserver", Image: "registry.k8s.io/kube-apiserver:v1.36.3",
			Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: int32(address.Port()), HostPort: int32(address.Port())}},
		}}},
	}
}

// admin is an administrator's kubeconfig as the control plane provider makes it.
func (s *site) admin(cluster *apiservers.Cluster, name, server, serverName string) []byte {
	s.Helper()
	config, err := kubeconfig.New(name, server, cluster.Keys.ClusterCA.Certificate, cluster.Keys.ClusterCA.Key)
	s.Expect(err).NotTo(HaveOccurred())
	config.Clusters[name].TLSServerName = serverName
	content, err := clientcmd.Write(*config)
	s.Expect(err).NotTo(HaveOccurred())
	return content
}
