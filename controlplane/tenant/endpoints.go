package tenant

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// kubernetesService is the Service in the namespace default. Everything in a tenant reaches the API through
// it.
const kubernetesService = "kubernetes"

// endpointSlice leads the Service kubernetes to an address that all API servers share. They do not write it
// themselves then: each that stops would take the one address away from all.
func endpointSlice(shared netip.AddrPort) (*discoveryv1.EndpointSlice, error) {
	if !shared.Addr().IsValid() || shared.Port() == 0 {
		return nil, fmt.Errorf("the address %s of the API servers is not one of IP with a port", shared)
	}
	family := discoveryv1.AddressTypeIPv4
	if shared.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  objectMeta(metav1.NamespaceDefault, kubernetesService),
		AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{shared.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}},
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To("https"), Port: ptr.To(int32(shared.Port())), Protocol: ptr.To(corev1.ProtocolTCP),
		}},
	}
	slice.Labels[discoveryv1.LabelServiceName] = kubernetesService
	return slice, nil
}
