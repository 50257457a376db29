package etcd

import (
	"fmt"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// certificates are one of each member, and one that all of them dial each other with.
func (c Cluster) certificates(in *components.Input, of components.Issuance) (components.Certificates, error) {
	ca, clientCA := c.trusted(of.Keys)
	certificates := components.Certificates{
		Leaves: []pki.Leaf{{
			Name: PeerClient, Signer: c.signer, CommonName: names.Object(in.Cluster.Name, c.Component), Usages: components.Dialing,
		}},
		Files: map[string][]byte{CAFile: ca, ClientCAFile: clientCA},
	}
	for _, member := range c.Members(in) {
		certificates.Leaves = append(certificates.Leaves, pki.Leaf{
			Name: member, Signer: c.signer, CommonName: member, Usages: components.Both,
			DNSNames: []string{"localhost", member, fmt.Sprintf("%s.%s.svc", member, in.Cluster.Namespace)},
			IPs:      components.IPs("127.0.0.1", "::1", in.Addresses[member]),
		})
	}
	return certificates, nil
}

func trustedByData(keys *pki.KeyMaterial) (ca, clientCA []byte) {
	return keys.EtcdCA.Bundle, keys.EtcdCA.Bundle
}

// trustedByEvents has the CA of data, too: kube-apiserver has one client certificate for both clusters. The reverse does
// not hold: who has the CA of events cannot read the data.
func trustedByEvents(keys *pki.KeyMaterial) (ca, clientCA []byte) {
	return keys.EtcdEventsCA.Bundle, slices.Concat(keys.EtcdEventsCA.Bundle, keys.EtcdCA.Bundle)
}
