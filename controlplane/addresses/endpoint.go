package addresses

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Endpoint is where the management cluster and people reach a tenant's API. A person sets it in the control plane or in the Cluster, or an
// infrastructure provider sets it in the Cluster. Else it is the Service of the API servers. Rule "ControlPlane: endpoint" of Cluster API's
// contract.
func Endpoint(cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane, service controlplanev1.APIEndpoint) controlplanev1.APIEndpoint {
	if own := controlPlane.Spec.ControlPlaneEndpoint; own != (controlplanev1.APIEndpoint{}) {
		return own
	}
	if given := cluster.Spec.ControlPlaneEndpoint; given.IsValid() {
		return controlplanev1.APIEndpoint{Host: given.Host, Port: given.Port}
	}
	return service
}

// ValidateEndpoint refuses two endpoints for one tenant.
func ValidateEndpoint(cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) error {
	own, given := controlPlane.Spec.ControlPlaneEndpoint, cluster.Spec.ControlPlaneEndpoint
	if own == (controlplanev1.APIEndpoint{}) || !given.IsValid() || (own.Host == given.Host && own.Port == given.Port) {
		return nil
	}
	return fmt.Errorf("spec.controlPlaneEndpoint is %s, but the Cluster's is %s; make the Cluster's the same, or leave it out",
		HostPort(own), net.JoinHostPort(given.Host, strconv.Itoa(int(given.Port))))
}

// ValidateHostCluster refuses a control plane in another host cluster of which nothing that the management cluster
// reaches is known, and one that would be its own host.
func ValidateHostCluster(cluster *clusterv1.Cluster, controlPlane *controlplanev1.KOKControlPlane) error {
	hosting := controlPlane.Spec.Hosting
	if !hosting.OnAnotherCluster() {
		return nil
	}
	var problems []error
	if own := secret.Name(cluster.Name, secret.Kubeconfig); hosting.KubeconfigRef.Name == own {
		problems = append(problems, fmt.Errorf("spec.hosting.kubeconfigRef names Secret %s, the kubeconfig of this tenant itself; create a new control plane that names the one of its host cluster", own))
	}
	if Endpoint(cluster, controlPlane, controlplanev1.APIEndpoint{}).Host == "" && hosting.Exposure.Type != controlplanev1.ExposureLoadBalancer {
		problems = append(problems, errors.New("spec.hosting.kubeconfigRef names another host cluster, whose cluster IPs the management cluster cannot reach; "+
			"set spec.controlPlaneEndpoint of the control plane or of its Cluster to where the API will be reached, or expose it with hosting.exposure.type LoadBalancer"))
	}
	return errors.Join(problems...)
}

// Ports that API servers on the pod network can listen on: they run without privileges, and konnectivity
// has ports above theirs.
const (
	minListener = 1024
	maxListener = 65535 - controlplanev1.PortBlockSize
)

// ValidateListener refuses a port that API servers cannot listen on. On the pod network the Cluster sets the port, so only the controller
// can judge it.
func ValidateListener(in *components.Input) error {
	port := in.Network.APIServerPort
	if !in.OnPodNetwork() || port >= minListener && port <= maxListener {
		return nil
	}
	return fmt.Errorf("spec.clusterNetwork.apiServerPort of the Cluster is %d, where API servers on the pod network cannot listen; choose one from %d to %d, or leave it out",
		port, minListener, maxListener)
}

// ValidateFamily refuses Services of another IP family than the address that API servers advertise, which is known by now: kube-apiserver does
// not start so, or the tenant's own Service kubernetes has no address of its family.
func ValidateFamily(in *components.Input) error {
	text, _, _ := strings.Cut(in.Network.ServiceCIDRs[0], ",") // A dual-stack list may come as one string.
	first, err := netip.ParsePrefix(text)
	if err != nil {
		return err
	}
	shown := cmp.Or(in.Exposure.Address, in.Addresses[names.APIService(in.Cluster.Name)])
	address, err := netip.ParseAddr(shown)
	if err != nil || address.Unmap().Is4() == first.Addr().Is4() {
		return err
	}
	return fmt.Errorf("spec.clusterNetwork.services.cidrBlocks of the Cluster begins with %s, and the host cluster gives API servers addresses as %s: "+
		"the first range has to be of the IP family of the host cluster; create a new Cluster with such a range", first, shown)
}

// HostPort is the host and port of an endpoint.
func HostPort(endpoint controlplanev1.APIEndpoint) string {
	return net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port)))
}
