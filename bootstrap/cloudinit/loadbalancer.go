package cloudinit

import (
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/unit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/sparse"
)

func addLoadBalancer(d *document, in *Input) error {
	content, err := sparse.YAML(&configuration.Configuration{
		ListenAddress: LocalServer, SeedBackends: in.Cluster.APIServers, CertificateAuthorityFile: CAFile,
		KubeconfigFile: Kubeconfig, StateFile: unit.StateFile,
	}, &configuration.Configuration{})
	if err != nil {
		return fmt.Errorf("marshal the load balancer's configuration: %w", err)
	}
	d.WriteFiles = append(d.WriteFiles,
		ownFile(configuration.DefaultPath, "0644", content),
		ownFile(unit.Path, "0644", []byte(unit.Service)))
	return nil
}
