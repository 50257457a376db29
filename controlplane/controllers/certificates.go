package controllers

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/konnectivity"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/pki"
)

var (
	server = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	dialer = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	both   = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
)

// Certificates are the Secrets with certificates that a control plane has, one for each component,
// without owner.
func Certificates(in *components.Input, keys *pki.KeyMaterial, endpointHost string, certSANs []string) ([]pki.LeafSecret, error) {
	sets, err := certificateSets(in, keys, endpointHost, certSANs)
	if err != nil {
		return nil, err
	}
	secrets := make([]pki.LeafSecret, 0, len(sets))
	for _, set := range sets {
		secrets = append(secrets, pki.LeafSecret{
			Key:    client.ObjectKey{Namespace: in.Cluster.Namespace, Name: names.Certs(in.Cluster.Name, set.component)},
			Labels: names.ComponentLabels(in.Cluster, set.component),
			Leaves: set.leaves,
			Files:  set.files,
		})
	}
	return secrets, nil
}

// certificateSet is what one component mounts: leaves, and files beside them.
type certificateSet struct {
	component string
	leaves    []pki.Leaf
	files     map[string][]byte
}

// certificateSets says which certificates a control plane has. Names and addresses in them are
// stable ones only: Services, loopback, the endpoint. A pod that moves needs no new certificate;
// who dials a node's address names the server itself.
func certificateSets(in *components.Input, keys *pki.KeyMaterial, endpointHost string, certSANs []string) ([]certificateSet, error) {
	apiServer, err := apiServerCertificates(in, keys, endpointHost, certSANs)
	if err != nil {
		return nil, err
	}
	sets := []certificateSet{
		etcdCertificates(in, etcd.Data, pki.EtcdCA, keys.EtcdCA.Bundle, keys.EtcdCA.Bundle),
		// kube-apiserver has one client certificate for both clusters, so that of events trusts the
		// other CA too. The reverse does not hold: who has the CA of events cannot read the data.
		etcdCertificates(in, etcd.Events, pki.EtcdEventsCA, keys.EtcdEventsCA.Bundle,
			bundle(keys.EtcdEventsCA.Bundle, keys.EtcdCA.Bundle)),
		apiServer,
	}
	for _, component := range []string{names.KubeControllerManager, names.KubeScheduler} {
		set, err := replicatedCertificates(in, component)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

func etcdCertificates(in *components.Input, cluster etcd.Cluster, signer pki.Signer, ca, clientCA []byte) certificateSet {
	set := certificateSet{
		component: cluster.Component,
		leaves: []pki.Leaf{{
			Name: etcd.PeerClient, Signer: signer, CommonName: names.Object(in.Cluster.Name, cluster.Component), Usages: dialer,
		}},
		files: map[string][]byte{etcd.CAFile: ca, etcd.ClientCAFile: clientCA},
	}
	for _, member := range cluster.Members(in) {
		set.leaves = append(set.leaves, pki.Leaf{
			Name: member, Signer: signer, CommonName: member, Usages: both,
			DNSNames: []string{"localhost", member, fmt.Sprintf("%s.%s.svc", member, in.Cluster.Namespace)},
			IPs:      addresses("127.0.0.1", "::1", in.Addresses[member]),
		})
	}
	return set
}

func apiServerCertificates(in *components.Input, keys *pki.KeyMaterial, endpointHost string, certSANs []string) (certificateSet, error) {
	service := names.Object(in.Cluster.Name, names.KubeAPIServer)
	first, err := firstServiceAddresses(in.Network.ServiceCIDRs)
	if err != nil {
		return certificateSet{}, err
	}
	serving := pki.Leaf{
		Name: kubeapiserver.ServerCert, Signer: pki.ClusterCA, CommonName: "kube-apiserver", Usages: server,
		DNSNames: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + in.Network.DNSDomain,
			"localhost", service, fmt.Sprintf("%s.%s.svc", service, in.Cluster.Namespace),
		},
		IPs: append(addresses("127.0.0.1", "::1", in.Addresses[service]), first...),
	}
	for _, san := range append([]string{endpointHost, in.Exposure.Address}, certSANs...) {
		if ip := net.ParseIP(san); ip != nil {
			serving.IPs = append(serving.IPs, ip)
		} else if san != "" {
			serving.DNSNames = append(serving.DNSNames, san)
		}
	}
	kubeconfig, err := konnectivityKubeconfig(in)
	if err != nil {
		return certificateSet{}, err
	}
	return certificateSet{
		component: names.KubeAPIServer,
		leaves: []pki.Leaf{
			serving,
			konnectivityServing,
			{Name: kubeapiserver.KonnectivityClientCert, Signer: pki.ClusterCA, CommonName: konnectivity.ServerUser, Usages: dialer},
			{Name: kubeapiserver.EtcdClientCert, Signer: pki.EtcdCA, CommonName: "kube-apiserver-etcd-client", Usages: dialer},
			{Name: kubeapiserver.KubeletClientCert, Signer: pki.ClusterCA, CommonName: tenant.KubeletClientUser, Usages: dialer},
			{Name: kubeapiserver.FrontProxyClientCert, Signer: pki.FrontProxyCA, CommonName: "front-proxy-client", Usages: dialer},
		},
		files: map[string][]byte{
			kubeapiserver.EtcdCAFile:                 bundle(keys.EtcdCA.Bundle, keys.EtcdEventsCA.Bundle),
			kubeapiserver.KonnectivityKubeconfigFile: kubeconfig,
		},
	}, nil
}

// konnectivityServing is for loopback alone: agents dial their worker's local load balancer and know no
// other name. It is not good for kube-apiserver's. It is there in every mode: running pods may mount it
// still, or again. The server reads it when it starts and never again.
var konnectivityServing = pki.Leaf{
	Name: kubeapiserver.KonnectivityServerCert, Signer: pki.ClusterCA, CommonName: "konnectivity-server", Usages: server,
	DNSNames: []string{"localhost", "konnectivity-server"}, IPs: addresses("127.0.0.1", "::1"), Lasting: true,
}

// konnectivityKubeconfig leads to the kube-apiserver in the same pod: while that one is away nobody needs
// the server, and no other one that hangs can hold it up.
func konnectivityKubeconfig(in *components.Input) ([]byte, error) {
	return pki.ComponentKubeconfig(pki.KubeconfigFile{
		Server:   fmt.Sprintf("https://127.0.0.1:%d", in.Ports.APIServer),
		User:     konnectivity.ServerUser,
		CAFile:   components.CertsDirectory + "/" + pki.CACert,
		CertFile: components.CertsDirectory + "/" + kubeapiserver.KonnectivityClientCert + ".crt",
		KeyFile:  components.CertsDirectory + "/" + kubeapiserver.KonnectivityClientCert + ".key",
	})
}

// replicatedCertificates are those of a component that dials kube-apiserver as the user
// "system:<component>", to which Kubernetes binds the component's role.
func replicatedCertificates(in *components.Input, component string) (certificateSet, error) {
	user := "system:" + component
	kubeconfig, err := pki.ComponentKubeconfig(pki.KubeconfigFile{
		Server:   "https://" + kubeapiserver.Address(in),
		User:     user,
		CAFile:   components.KeyMaterialDirectory + "/" + pki.CACert,
		CertFile: components.CertsDirectory + "/" + components.ClientCert + ".crt",
		KeyFile:  components.CertsDirectory + "/" + components.ClientCert + ".key",
	})
	if err != nil {
		return certificateSet{}, err
	}
	return certificateSet{
		component: component,
		leaves: []pki.Leaf{
			{Name: components.ServerCert, Signer: pki.ClusterCA, CommonName: component, Usages: server,
				DNSNames: []string{"localhost", component}, IPs: addresses("127.0.0.1", "::1")},
			{Name: components.ClientCert, Signer: pki.ClusterCA, CommonName: user, Usages: dialer},
		},
		files: map[string][]byte{components.KubeconfigFile: kubeconfig},
	}, nil
}

func addresses(texts ...string) []net.IP {
	ips := make([]net.IP, 0, len(texts))
	for _, text := range texts {
		ips = append(ips, net.ParseIP(text))
	}
	return ips
}

// firstServiceAddresses are the addresses of the tenant's "kubernetes" Service: the first of each
// Service CIDR.
func firstServiceAddresses(cidrs []string) ([]net.IP, error) {
	ips := make([]net.IP, 0, len(cidrs))
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("read spec.clusterNetwork.services.cidrBlocks of the Cluster: %w", err)
		}
		ips = append(ips, net.IP(prefix.Masked().Addr().Next().AsSlice()))
	}
	return ips, nil
}

func bundle(certificates ...[]byte) []byte {
	var all []byte
	for _, certificate := range certificates {
		all = append(all, certificate...)
	}
	return all
}
