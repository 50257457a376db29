package etcd

import (
	"fmt"
	"maps"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// certificates are one of each member, and one that all of them dial each other with.
func (c Cluster) certificates(in *components.Input, of components.Issuance) (components.Certificates, error) {
	files, err := c.trusted(of.Keys)
	if err != nil {
		return components.Certificates{}, err
	}
	leaves := certificates.BySigning(of.Keys, certificates.Leaf{
		Name: PeerClient, Signer: c.Signer, CommonName: names.Object(in.Cluster.Name, c.Component), Usages: components.Dialing,
	})
	for _, member := range c.Members(in) {
		leaves = append(leaves, certificates.BySigning(of.Keys, certificates.Leaf{
			Name: member, Signer: c.Signer, CommonName: member, Usages: components.Both,
			DNSNames: []string{"localhost", member, fmt.Sprintf("%s.%s.svc", member, in.Cluster.Namespace)},
			IPs:      components.IPs("127.0.0.1", "::1", in.Addresses[member]),
		})...)
	}
	return components.Certificates{Leaves: leaves, Files: files}, nil
}

func trustedByData(keys *pki.KeyMaterial) (map[string][]byte, error) {
	files, err := components.Trusted(keys, CAFile, pki.EtcdCA)
	if err != nil {
		return nil, err
	}
	clients, err := components.Trusted(keys, ClientCAFile, pki.EtcdCA)
	maps.Copy(files, clients)
	return files, err
}

// trustedByEvents has the CA of data, too: kube-apiserver has one client certificate for both clusters. The reverse does
// not hold: who has the CA of events cannot read the data.
func trustedByEvents(keys *pki.KeyMaterial) (map[string][]byte, error) {
	files, err := components.Trusted(keys, CAFile, pki.EtcdEventsCA)
	if err != nil {
		return nil, err
	}
	clients, err := components.TrustedOfBoth(keys, ClientCAFile, pki.EtcdEventsCA, pki.EtcdCA)
	maps.Copy(files, clients)
	return files, err
}
