package kubeapiserver

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/konnectivity"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// wantedCertificates are one to serve with, those to dial etcd, kubelets and extension API servers with, and those of
// konnectivity's server.
func wantedCertificates(in *components.Input, of components.Issuance) (components.Certificates, error) {
	service := names.APIService(in.Cluster.Name)
	first, err := firstServiceAddresses(in.Network.ServiceCIDRs)
	if err != nil {
		return components.Certificates{}, err
	}
	serving := certificates.Leaf{
		Name: ServerCert, Signer: pki.ClusterCA, CommonName: "kube-apiserver", Usages: components.Serving,
		DNSNames: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + in.Network.DNSDomain,
			"localhost", service, fmt.Sprintf("%s.%s.svc", service, in.Cluster.Namespace),
		},
		IPs: append(components.IPs("127.0.0.1", "::1", in.Addresses[service]), first...),
	}
	for _, san := range append([]string{of.Endpoint, in.Exposure.Address}, of.SANs...) {
		if ip := net.ParseIP(san); ip != nil {
			serving.IPs = append(serving.IPs, ip)
		} else if san != "" {
			serving.DNSNames = append(serving.DNSNames, san)
		}
	}
	kubeconfig, err := konnectivityKubeconfig(in)
	if err != nil {
		return components.Certificates{}, err
	}
	files, err := components.TrustedOfBoth(of.Keys, EtcdCAFile, pki.EtcdCA, pki.EtcdEventsCA)
	if err != nil {
		return components.Certificates{}, err
	}
	files[KonnectivityKubeconfigFile] = kubeconfig
	return components.Certificates{
		Leaves: slices.Concat(
			certificates.ByShowing(of.Keys, serving),
			certificates.ByShowing(of.Keys, konnectivityServing),
			certificates.BySigning(of.Keys, certificates.Leaf{
				Name: KonnectivityClientCert, Signer: pki.ClusterCA, CommonName: konnectivity.ServerUser, Usages: components.Dialing,
			}), certificates.BySigning(of.Keys, certificates.Leaf{
				Name: KubeletClientCert, Signer: pki.ClusterCA, CommonName: names.KubeletClientUser, Usages: components.Dialing,
			}), certificates.BySigning(of.Keys, certificates.Leaf{
				Name: EtcdClientCert, Signer: pki.EtcdCA, CommonName: "kube-apiserver-etcd-client", Usages: components.Dialing,
			}), certificates.BySigning(of.Keys, certificates.Leaf{
				Name: FrontProxyClientCert, Signer: pki.FrontProxyCA, CommonName: "front-proxy-client", Usages: components.Dialing,
			})),
		Files: files,
	}, nil
}

// konnectivityServing is for loopback alone: agents dial their worker's local load balancer and know no
// other name. It is not good for kube-apiserver's. It is there in every mode: running pods may mount it
// still, or again. The server reads it when it starts and never again.
var konnectivityServing = certificates.Leaf{
	Name: KonnectivityServerCert, Signer: pki.ClusterCA, CommonName: "konnectivity-server", Usages: components.Serving,
	DNSNames: []string{"localhost", "konnectivity-server"}, IPs: components.IPs("127.0.0.1", "::1"), Lasting: true,
}

// konnectivityKubeconfig leads to the kube-apiserver in the same pod: while that one is away nobody needs
// the server, and no other one that hangs can hold it up.
func konnectivityKubeconfig(in *components.Input) ([]byte, error) {
	return certificates.ComponentKubeconfig(certificates.KubeconfigFile{
		Server:   fmt.Sprintf("https://127.0.0.1:%d", in.Ports.APIServer),
		User:     konnectivity.ServerUser,
		CAFile:   components.CertsDirectory + "/" + pki.CACert,
		CertFile: components.CertsDirectory + "/" + KonnectivityClientCert + ".crt",
		KeyFile:  components.CertsDirectory + "/" + KonnectivityClientCert + ".key",
	})
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
