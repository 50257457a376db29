package components

import (
	"crypto/x509"
	"net"
	"slices"
	"strconv"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// What certificates are good for: to serve with, to dial with, or both.
var (
	Serving = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	Dialing = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	Both    = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
)

// Certificates are what the Secret of a component holds: leaves, and files beside them. Names and addresses in leaves are
// stable ones only: Services, loopback, the endpoint. A pod that moves needs no new certificate; who dials a node's
// address names the server itself.
type Certificates struct {
	Leaves []certificates.Leaf
	Files  map[string][]byte
}

// Issuance is what certificates depend on beside the inputs of renderings: a change of it reaches Secrets alone.
type Issuance struct {
	// Keys are the tenant's certificate authorities.
	Keys *pki.KeyMaterial
	// Endpoint is the host by which the tenant's API is reached, SANs are further names and addresses of it.
	Endpoint string
	SANs     []string
}

// Trusted are the files with CAs of a signer, by name: one for each set of CAs that pods trust now.
func Trusted(keys *pki.KeyMaterial, name string, signer pki.Signer) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, set := range keys.TrustedSets(signer) {
		var err error
		if files[pki.TrustedFile(name, set...)], err = keys.Bundle(signer, set...); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// TrustedOfBoth are the files with CAs of two signers, by name: one for each pair of sets that pods trust now.
func TrustedOfBoth(keys *pki.KeyMaterial, name string, signer, other pki.Signer) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, set := range keys.TrustedSets(signer) {
		for _, with := range keys.TrustedSets(other) {
			cas, err := keys.Bundle(signer, set...)
			if err != nil {
				return nil, err
			}
			others, err := keys.Bundle(other, with...)
			if err != nil {
				return nil, err
			}
			files[pki.TrustedFileOfBoth(name, set, with)] = slices.Concat(cas, others)
		}
	}
	return files, nil
}

// IPs are addresses for a leaf.
func IPs(texts ...string) []net.IP {
	ips := make([]net.IP, 0, len(texts))
	for _, text := range texts {
		ips = append(ips, net.ParseIP(text))
	}
	return ips
}

// APIServerAddress is the host and port of the API server's Service.
func (in *Input) APIServerAddress() string {
	return net.JoinHostPort(in.Addresses[names.APIService(in.Cluster.Name)], strconv.Itoa(int(in.Network.APIServerPort)))
}
