package kubeapiserver

import (
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
)

// portHTTPS and portAgents are names of pods' ports. Services use the names, because the host cluster
// allocates the numbers later.
const (
	portHTTPS  = "https"
	portAgents = "agents"
)

// exposure says how API servers are exposed by their Service.
type exposure struct {
	serviceType corev1.ServiceType
	// local leads each node's port to API servers of that node alone, so that a worker's load balancer
	// always finds the same API servers at an address.
	local corev1.ServiceExternalTrafficPolicy
	// address returns the one that all API servers share; nil if each has that of its node. It returns the recorded address as long as
	// the host cluster gives that.
	address func(service *corev1.Service, recorded string) (address, waiting string)
	// port is the one that is exposed.
	port func(*corev1.Service) int32
}

// exposures are the ways of API servers on the pod network, by hosting.exposure.type.
var exposures = map[controlplanev1.ExposureType]exposure{
	controlplanev1.ExposureLoadBalancer: {serviceType: corev1.ServiceTypeLoadBalancer, address: ingressAddress, port: servicePort},
	controlplanev1.ExposureNodePort:     {serviceType: corev1.ServiceTypeNodePort, local: corev1.ServiceExternalTrafficPolicyLocal, port: nodePort},
	controlplanev1.ExposureNone:         {serviceType: corev1.ServiceTypeClusterIP, address: clusterIP, port: servicePort},
}

// expose makes the Service one that exposes API servers on the pod network. A node port that was given once
// is asked for ever after.
func expose(service *corev1.Service, in *components.Input) {
	if !in.OnPodNetwork() {
		return
	}
	how := exposures[in.Spec.Hosting.Exposure.Type]
	service.Spec.Type, service.Spec.ExternalTrafficPolicy = how.serviceType, how.local
	https := &service.Spec.Ports[0]
	https.TargetPort = intstr.FromString(portHTTPS)
	if how.serviceType == corev1.ServiceTypeNodePort {
		https.NodePort = in.Exposure.Port
		if pinned := in.Spec.Hosting.Exposure.NodePort; pinned != 0 {
			https.NodePort = pinned
		}
	}
	if in.Spec.Addons.Konnectivity.Managed() {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: portAgents, Protocol: corev1.ProtocolTCP,
			Port: in.Network.APIServerPort + controlplanev1.KonnectivityPortOffset, TargetPort: intstr.FromString(portAgents),
		})
	}
}

// Exposed is where API servers on the pod network are reached by their Service as it is in the host
// cluster; waiting says what the host cluster must still give, and is empty on the host network. It prefers the recorded
// address among several.
func Exposed(in *components.Input, service *corev1.Service, recorded components.Exposure) (_ components.Exposure, waiting string) {
	if !in.OnPodNetwork() {
		return components.Exposure{}, ""
	}
	how := exposures[in.Spec.Hosting.Exposure.Type]
	exposed := components.Exposure{Port: how.port(service)}
	if how.address != nil {
		exposed.Address, waiting = how.address(service, recorded.Address)
	}
	return exposed, waiting
}

// ingressAddress returns the recorded IP address of a load balancer while the load balancer has it, and else its first one: a load balancer
// may list its addresses in another order at any time. API servers can advertise no name.
func ingressAddress(service *corev1.Service, recorded string) (address, waiting string) {
	names := ""
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		ip := net.ParseIP(ingress.IP)
		if ip == nil {
			names += " " + ingress.Hostname
		} else if address == "" || ip.String() == recorded {
			address = ip.String()
		}
	}
	if address != "" {
		return address, ""
	}
	if names != "" {
		return "", fmt.Sprintf("the load balancer of Service %s has only a name,%s, and API servers must advertise an IP address to workers: "+
			"let the load balancer give one, or create the control plane with hosting.exposure.type NodePort", service.Name, names)
	}
	return "", fmt.Sprintf("Service %s of type LoadBalancer has no address yet, which the host cluster's load balancer gives: "+
		"see the events of the Service; a host cluster without load balancer needs another hosting.exposure.type", service.Name)
}

func clusterIP(service *corev1.Service, _ string) (address, waiting string) {
	return service.Spec.ClusterIP, ""
}

func servicePort(service *corev1.Service) int32 { return service.Spec.Ports[0].Port }

func nodePort(service *corev1.Service) int32 { return service.Spec.Ports[0].NodePort }

// servedPorts are the ports of API servers' pods that others than kubelet may reach.
func servedPorts(in *components.Input) []int32 {
	served := []int32{in.Ports.APIServer}
	if in.Spec.Addons.Konnectivity.Managed() {
		served = append(served, in.Ports.Number(KonnectivityAgent))
	}
	return served
}
