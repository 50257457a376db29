package controllers

import (
	"fmt"
	"net"
	"strconv"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/references"
)

// konnectivityPort is the port at which konnectivity serves agents, at the addresses of the API servers; they all have the
// same port. It is zero for control planes of other providers, where it is not known.
func konnectivityPort(cluster *clusterv1.Cluster, apiServers []string) (int, error) {
	if !references.HasKOKControlPlane(cluster) {
		return 0, nil
	}
	_, text, err := net.SplitHostPort(apiServers[0])
	if err != nil {
		return 0, fmt.Errorf("read the address of an API server: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read the port of the API server at %s: %w", apiServers[0], err)
	}
	return port + controlplanev1.KonnectivityPortOffset, nil
}
