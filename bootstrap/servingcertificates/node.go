package servingcertificates

import (
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func sameIP(address string, ip net.IP) bool {
	parsed := net.ParseIP(address)
	return parsed != nil && parsed.Equal(ip)
}

// machineOf is the Machine of a node: the one whose nodeRef names it. Until Cluster API has set nodeRef, it is the Machine
// that has the node's name, as its own or among its addresses. It is nil when no Machine, or more than one, has it.
func machineOf(node string, machines []clusterv1.Machine) *clusterv1.Machine {
	if i := slices.IndexFunc(machines, func(m clusterv1.Machine) bool { return m.Status.NodeRef.Name == node }); i >= 0 {
		return &machines[i]
	}
	var found *clusterv1.Machine
	for i := range machines {
		machine := &machines[i]
		if machine.Status.NodeRef.IsDefined() || machine.Name != node && !hasName(machine, node) {
			continue
		}
		if found != nil {
			return nil
		}
		found = machine
	}
	return found
}

func hasName(machine *clusterv1.Machine, name string) bool {
	return slices.ContainsFunc(machine.Status.Addresses, func(address clusterv1.MachineAddress) bool {
		return isName(address.Address) && strings.EqualFold(address.Address, name)
	})
}

func isName(address string) bool { return net.ParseIP(address) == nil }

// machineAddresses are the addresses of a Machine, from its infrastructure.
func machineAddresses(machine *clusterv1.Machine) []string {
	var addresses []string
	for _, address := range machine.Status.Addresses {
		addresses = append(addresses, address.Address)
	}
	return addresses
}

// trustsNode reports whether the addresses in the Node are used: the Machine's infrastructure is ready and has none.
func trustsNode(machine *clusterv1.Machine) bool {
	return len(machine.Status.Addresses) == 0 && ptr.Deref(machine.Status.Initialization.InfrastructureProvisioned, false)
}

// nodeAddresses are the IP addresses of a Node. Host names in its status are left out: a node may write any there, and its
// own name is allowed anyway.
func nodeAddresses(node *corev1.Node) []string {
	var addresses []string
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
			addresses = append(addresses, address.Address)
		}
	}
	return addresses
}
