package servingcertificates

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TokenID is the id of the bootstrap token that a request for a node's first client certificate came with; false for every
// other request. A renewal comes with the node's certificate: the tenant's kube-controller-manager approves it.
func TokenID(request *certificatesv1.CertificateSigningRequest) (string, bool) {
	id, found := strings.CutPrefix(request.Spec.Username, bootstrapapi.BootstrapUserPrefix)
	return id, found && request.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName
}

// Joining is what is known of the machine that joins with a bootstrap token.
type Joining struct {
	// Machine is the one that the token was made for; nil for a token that was made for none.
	Machine *clusterv1.Machine
	// Names are names of the node in the Machine's configuration, besides the Machine's own names.
	Names []string
	// Unsure says why it is not known yet which Machine the token is for; empty when it is known.
	Unsure string
	// Held is true while the tenant accepts the token.
	Held bool
	// NodeThere is true when the tenant has a Node of the requested name.
	NodeThere bool
}

// DecideFirst decides on a pending request for a node's first client certificate. A token that was made for a Machine gives
// the right to be that Machine's node. A token that was made for none gives the right to be a new node. The rules for the
// request's form are those of the signer kubernetes.io/kube-apiserver-client-kubelet.
func DecideFirst(request *certificatesv1.CertificateSigningRequest, joining Joining, machines []clusterv1.Machine) Decision {
	name, err := parseFirst(request)
	if err != nil {
		return Decision{Deny, err.Error()}
	}
	if joining.Unsure != "" {
		return Decision{Wait, joining.Unsure}
	}
	if joining.Machine == nil {
		return decideWithoutMachine(name, joining, machines)
	}
	machine := joining.Machine
	if !machine.DeletionTimestamp.IsZero() {
		return Decision{Deny, fmt.Sprintf("Machine %s, which the bootstrap token was made for, is being deleted", machine.Name)}
	}
	if own := machine.Status.NodeRef.Name; own != "" && own != name {
		return Decision{Deny, fmt.Sprintf("the bootstrap token was made for Machine %s, which is node %s and not %s", machine.Name, own, name)}
	}
	others := slices.DeleteFunc(slices.Clone(machines), func(m clusterv1.Machine) bool { return m.Name == machine.Name })
	names := append(namesOf(machine), joining.Names...)
	if slices.Contains(names, name) {
		if i := slices.IndexFunc(others, func(m clusterv1.Machine) bool { return m.Status.NodeRef.Name == name }); i >= 0 {
			return Decision{Wait, fmt.Sprintf("node %s is still that of Machine %s", name, others[i].Name)}
		}
		return Decision{Approve, fmt.Sprintf("requested with the bootstrap token of Machine %s for its node %s", machine.Name, name)}
	}
	switch other := holderOf(name, others); {
	case other != "":
		return Decision{Deny, fmt.Sprintf("the bootstrap token was made for Machine %s, and %s is the name of Machine %s", machine.Name, name, other)}
	case len(addressNames(machine)) > 0:
		return Decision{Deny, fmt.Sprintf("the bootstrap token was made for Machine %s, whose node may be called %s, and not %s", machine.Name, strings.Join(names, " or "), name)}
	case !ptr.Deref(machine.Status.Initialization.InfrastructureProvisioned, false):
		return Decision{Wait, fmt.Sprintf("the names of Machine %s are not known yet", machine.Name)}
	case joining.NodeThere:
		return Decision{Wait, fmt.Sprintf("there is a Node %s, and it is not known to be that of Machine %s; if it is gone, delete it", name, machine.Name)}
	}
	return Decision{Approve, fmt.Sprintf("requested with the bootstrap token of Machine %s, whose infrastructure names no node, for the new node %s", machine.Name, name)}
}

func decideWithoutMachine(name string, joining Joining, machines []clusterv1.Machine) Decision {
	switch other := holderOf(name, machines); {
	case !joining.Held:
		return Decision{Deny, "the bootstrap token is not, or no longer, one of this cluster"}
	case other != "":
		return Decision{Deny, fmt.Sprintf("the bootstrap token was made for no Machine, and %s is the name of Machine %s", name, other)}
	case joining.NodeThere:
		return Decision{Deny, fmt.Sprintf("the bootstrap token was made for no Machine, and there is a Node %s; if it is gone, delete it", name)}
	}
	return Decision{Approve, fmt.Sprintf("requested with a bootstrap token that was made for no Machine, for the new node %s", name)}
}

// parseFirst checks everything of a request that needs no knowledge of the node, and gives the node's name.
func parseFirst(request *certificatesv1.CertificateSigningRequest) (string, error) {
	certificate, err := parseRequest(request)
	if err != nil {
		return "", err
	}
	if err := checkUsages(request.Spec.Usages, certificatesv1.UsageClientAuth); err != nil {
		return "", err
	}
	name, found := strings.CutPrefix(certificate.Subject.CommonName, nodeUserPrefix)
	if !found || name == "" {
		return "", fmt.Errorf("the common name is %q; it must be %s<name>", certificate.Subject.CommonName, nodeUserPrefix)
	}
	if err := checkOrganization(certificate); err != nil {
		return "", err
	}
	if len(certificate.DNSNames)+len(certificate.IPAddresses)+len(certificate.EmailAddresses)+len(certificate.URIs) > 0 {
		return "", errors.New("it requests names and addresses to serve at, which a client has not")
	}
	return name, nil
}

func checkOrganization(certificate *x509.CertificateRequest) error {
	if !slices.Equal(certificate.Subject.Organization, []string{nodesGroup}) {
		return fmt.Errorf("the organizations are %q; they must be %q alone", certificate.Subject.Organization, nodesGroup)
	}
	return nil
}

// namesOf are the names that the node of a Machine may have: that of the Machine, that of its infrastructure object, which
// hosts are named after, and those that the infrastructure reports.
func namesOf(machine *clusterv1.Machine) []string {
	names := []string{machine.Name}
	if other := machine.Spec.InfrastructureRef.Name; other != "" && other != machine.Name {
		names = append(names, other)
	}
	if own := machine.Status.NodeRef.Name; own != "" {
		names = append(names, own)
	}
	return append(names, addressNames(machine)...)
}

// addressNames are the names among a Machine's addresses, and the first labels of DNS names, in lower case like names of
// Nodes.
func addressNames(machine *clusterv1.Machine) []string {
	var names []string
	for _, address := range machine.Status.Addresses {
		if !isName(address.Address) {
			continue
		}
		whole := strings.ToLower(strings.TrimSuffix(address.Address, "."))
		host, _, _ := strings.Cut(whole, ".")
		names = append(names, whole, host)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// holderOf is the Machine whose node has or may have a name; empty for none.
func holderOf(name string, machines []clusterv1.Machine) string {
	for i := range machines {
		if slices.Contains(namesOf(&machines[i]), name) {
			return machines[i].Name
		}
	}
	return ""
}
