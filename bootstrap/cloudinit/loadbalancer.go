package cloudinit

import (
	"fmt"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/unit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/sparse"
)

func addLoadBalancer(d *document, in *Input) error {
	service, err := services.API(in.Cluster.ServiceCIDRs)
	if err != nil {
		return err
	}
	config := &configuration.Configuration{
		ListenAddress: LocalServer, SeedBackends: in.Cluster.APIServers, CertificateAuthorityFile: CAFile,
		KubeconfigFile: onworker.Kubeconfig, StateFile: unit.StateFile,
		ServiceAddress: service,
	}
	if port := in.Cluster.KonnectivityPort; port != 0 {
		// It is always there, so that konnectivity can be switched on without new machines.
		local := fmt.Sprintf("127.0.0.1:%d", controlplanev1.KonnectivityLocalPort)
		config.AdditionalListeners = []configuration.Listener{{ListenAddress: local, BackendPort: port}}
	}
	content, err := sparse.YAML(config, &configuration.Configuration{})
	if err != nil {
		return fmt.Errorf("marshal the load balancer's configuration: %w", err)
	}
	d.WriteFiles = append(d.WriteFiles,
		ownFile(configuration.DefaultPath, "0644", content),
		ownFile(unit.Path, "0644", []byte(unit.Service)),
		ownFile(unit.ServiceAddressPath, "0644", []byte(unit.ServiceAddress)))
	return nil
}
