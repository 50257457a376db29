// Package loadbalancer writes the configuration of kok-apiserver-lb for machines of another bootstrap
// provider, such as Cluster API's KubeadmConfig. Such a provider takes files from Secrets, and does not
// know the address of an API server, which a machine needs to join. A Keeper writes the Secret (secret.go); the rest is pure.
package loadbalancer

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/unit"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/sparse"
)

const (
	// Key is the key of the configuration in its Secret.
	Key = "config.yaml"
	// CAFile is where the machine must have the certificate of the cluster's CA, the key tls.crt of Cluster
	// API's Secret "<cluster>-ca". It is a file of the load balancer's own: kubeadm refuses to join where
	// its own is there already.
	CAFile = onworker.LoadBalancerDir + "ca.crt"
)

// Configuration is the load balancer's configuration file for a machine of the tenant with these API
// servers, each as host:port, and these Service CIDRs.
func Configuration(apiServers, serviceCIDRs []string, tenant ports.Ports) ([]byte, error) {
	service, err := services.API(serviceCIDRs)
	if err != nil {
		return nil, err
	}
	content, err := sparse.YAML(&configuration.Configuration{
		ListenAddress: configuration.DefaultListenAddress, SeedBackends: apiServers,
		CertificateAuthorityFile: CAFile, KubeconfigFile: onworker.Kubeconfig, StateFile: unit.StateFile,
		ServiceAddress: service,
		// It is there whether agents run or not: konnectivity can be switched on without new machines.
		AdditionalListeners: []configuration.Listener{{
			ListenAddress: net.JoinHostPort("127.0.0.1", strconv.Itoa(controlplanev1.KonnectivityLocalPort)),
			BackendPort:   int(tenant.Number(kubeapiserver.KonnectivityAgent)),
		}},
	}, &configuration.Configuration{})
	if err != nil {
		return nil, fmt.Errorf("marshal the load balancer's configuration: %w", err)
	}
	return content, nil
}

// Seeds are the API servers for machines to begin with, sorted: those found, of as many as there should
// be. While some are missing those in the present configuration stay, as one that restarts comes back at
// the same address, and a rollout changes nothing.
func Seeds(found []string, wanted int, present []byte) []string {
	seeds := sorted(found)
	if len(seeds) >= wanted {
		return seeds
	}
	known, err := configuration.Parse(present)
	if err != nil {
		return seeds
	}
	return sorted(append(seeds, known.SeedBackends...))
}

// sorted is a copy of addresses in order, each once.
func sorted(addresses []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(addresses)))
}
