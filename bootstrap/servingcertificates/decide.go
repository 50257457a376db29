package servingcertificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// Action is what is done with a request.
type Action string

// Actions.
const (
	// Approve lets the tenant sign the certificate.
	Approve Action = "Approve"
	// Deny refuses the request for good; kubelet will make another one.
	Deny Action = "Deny"
	// Wait leaves the request as it is: something that the decision depends on is not known yet, or others decide on it.
	Wait Action = "Wait"
)

// Decision says what is done with a request, and why.
type Decision struct {
	Action Action
	// Message says why, in words for the person who reads the request.
	Message string
}

// Cluster has the names and addresses that no node's certificate may have: a client that trusts the
// tenant's CA would take such a node for the API server, or for a Service.
type Cluster struct {
	// ServiceCIDRs are the ranges of Services.
	ServiceCIDRs []*net.IPNet
	// DNSDomain is the domain of Services.
	DNSDomain string
	// Endpoint is the host of the control plane's endpoint, a name or an IP address; empty while there is none.
	Endpoint string
}

// Node is what is known of the node that a request comes from.
type Node struct {
	// Machine is the name of its Machine; empty when no Machine is known for the node yet.
	Machine string
	// Addresses are the names and IP addresses that the node may serve at, besides its own name. Empty while
	// they are not known yet.
	Addresses []string
	// Others are names and addresses of others, with their holders. They are set when Addresses come from the node itself,
	// which may lie.
	Others []Holder
}

// Holder says which object has a name or an address.
type Holder struct{ Address, Whose string }

// NodeName is the name of the node that a request comes from, by the user that the tenant authenticated; false when that is
// no node.
func NodeName(request *certificatesv1.CertificateSigningRequest) (string, bool) {
	name, found := strings.CutPrefix(request.Spec.Username, nodeUserPrefix)
	return name, found && name != "" && slices.Contains(request.Spec.Groups, nodesGroup)
}

// Pending reports whether a request needs a decision here: it is for a kubelet's serving certificate or a node's first client
// certificate, and nobody has decided yet.
func Pending(request *certificatesv1.CertificateSigningRequest) bool {
	_, isFirst := TokenID(request)
	if request.Spec.SignerName != certificatesv1.KubeletServingSignerName && !isFirst || len(request.Status.Certificate) > 0 {
		return false
	}
	return !slices.ContainsFunc(request.Status.Conditions, func(condition certificatesv1.CertificateSigningRequestCondition) bool {
		return condition.Type == certificatesv1.CertificateApproved || condition.Type == certificatesv1.CertificateDenied || condition.Type == certificatesv1.CertificateFailed
	})
}

// Decide decides on a pending request. The rules for its form are those of the signer
// kubernetes.io/kubelet-serving
// (https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers).
func Decide(request *certificatesv1.CertificateSigningRequest, cluster Cluster, node Node) Decision {
	name, isNode := NodeName(request)
	if !isNode {
		return Decision{Deny, fmt.Sprintf("requested by %q, which is no node: the user must be %s<name>, in group %s", request.Spec.Username, nodeUserPrefix, nodesGroup)}
	}
	certificate, err := parse(request, name)
	if err != nil {
		return Decision{Deny, err.Error()}
	}
	if others := cluster.others(certificate); len(others) > 0 {
		return Decision{Deny, "no node may serve at " + strings.Join(others, ", at ")}
	}
	switch {
	case node.Machine == "":
		return Decision{Wait, fmt.Sprintf("no Machine has node %s yet", name)}
	case len(node.Addresses) == 0:
		return Decision{Wait, fmt.Sprintf("the addresses of Machine %s, node %s, are not known yet", node.Machine, name)}
	}
	if foreign := foreignNames(certificate, name, node.Addresses); len(foreign) > 0 {
		return Decision{Deny, fmt.Sprintf("%s: not among the addresses of Machine %s, node %s, which are %s",
			strings.Join(foreign, ", "), node.Machine, name, strings.Join(node.Addresses, ", "))}
	}
	if taken := node.taken(certificate); len(taken) > 0 {
		return Decision{Deny, fmt.Sprintf("the infrastructure of Machine %s names no addresses, and node %s must not serve at %s; whatever is gone, delete its Machine or Node",
			node.Machine, name, strings.Join(taken, ", at "))}
	}
	return Decision{Approve, fmt.Sprintf("requested by node %s for itself, with addresses of Machine %s", name, node.Machine)}
}

// parseRequest reads a request of any form.
func parseRequest(request *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(request.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("spec.request is not one PEM block CERTIFICATE REQUEST")
	}
	certificate, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("spec.request cannot be read: %w", err)
	}
	if err := certificate.CheckSignature(); err != nil {
		return nil, fmt.Errorf("spec.request is not signed by its own key: %w", err)
	}
	return certificate, nil
}

// parse checks everything of a request for a serving certificate that needs no knowledge of the node.
func parse(request *certificatesv1.CertificateSigningRequest, name string) (*x509.CertificateRequest, error) {
	certificate, err := parseRequest(request)
	if err != nil {
		return nil, err
	}
	if err := checkUsages(request.Spec.Usages, certificatesv1.UsageServerAuth); err != nil {
		return nil, err
	}
	if want := nodeUserPrefix + name; certificate.Subject.CommonName != want {
		return nil, fmt.Errorf("the common name is %q; it must be the requester's, %q", certificate.Subject.CommonName, want)
	}
	if err := checkOrganization(certificate); err != nil {
		return nil, err
	}
	if len(certificate.EmailAddresses) > 0 || len(certificate.URIs) > 0 {
		return nil, errors.New("it requests e-mail addresses or URIs, which no kubelet serves at")
	}
	if len(certificate.DNSNames)+len(certificate.IPAddresses) == 0 {
		return nil, errors.New("it requests no name and no address")
	}
	// The rules for addresses judge IP SANs alone, and some clients accept an address that is a DNS name.
	if i := slices.IndexFunc(certificate.DNSNames, isAddress); i >= 0 {
		return nil, fmt.Errorf("the DNS name %s is an address; addresses belong into IP SANs", certificate.DNSNames[i])
	}
	return certificate, nil
}

// isAddress reports whether a DNS name, which may end in the root's dot, is an address.
func isAddress(name string) bool { return !isName(strings.TrimSuffix(name, ".")) }

// checkUsages refuses usages other than those of the one purpose.
func checkUsages(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) error {
	for _, required := range []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, purpose} {
		if !slices.Contains(usages, required) {
			return fmt.Errorf("usage %q is missing", required)
		}
	}
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, purpose, certificatesv1.UsageKeyEncipherment:
		default:
			return fmt.Errorf("usage %q is more than %q needs", usage, purpose)
		}
	}
	return nil
}

// foreignNames are names and addresses in a request that are not the node's.
func foreignNames(certificate *x509.CertificateRequest, name string, addresses []string) []string {
	var foreign []string
	for _, requested := range certificate.DNSNames {
		if requested != name && !slices.ContainsFunc(addresses, func(address string) bool { return strings.EqualFold(address, requested) }) {
			foreign = append(foreign, "name "+requested)
		}
	}
	for _, requested := range certificate.IPAddresses {
		if !slices.ContainsFunc(addresses, func(address string) bool { return sameIP(address, requested) }) {
			foreign = append(foreign, "address "+requested.String())
		}
	}
	return foreign
}

// taken are names and addresses in a request that others have.
func (n Node) taken(certificate *x509.CertificateRequest) []string {
	var taken []string
	for _, other := range n.Others {
		isIP := func(address net.IP) bool { return sameIP(other.Address, address) }
		isName := func(name string) bool { return strings.EqualFold(strings.TrimSuffix(name, "."), other.Address) }
		if slices.ContainsFunc(certificate.IPAddresses, isIP) || slices.ContainsFunc(certificate.DNSNames, isName) {
			taken = append(taken, other.Address+", which "+other.Whose+" has")
		}
	}
	return taken
}
