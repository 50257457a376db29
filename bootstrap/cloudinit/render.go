package cloudinit

import (
	"errors"
	"fmt"
	"net"

	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// Render makes the cloud-config document of a machine. An error names the field to change, of the KOKConfig, its Machine or
// its Cluster.
func Render(in Input) ([]byte, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	d := &document{}
	for _, part := range []func(*document, *Input) error{
		addUsers, addNTP, addSoftware, addCluster, addKubelet, addLoadBalancer, addRegistries, addProxy, addBootstrap, addFiles,
	} {
		if err := part(d, &in); err != nil {
			return nil, err
		}
	}
	return d.marshal()
}

// oldestKubelet is the oldest minor whose kubelet accepts this configuration. No newer one is refused: the control plane
// decides which versions are supported.
const oldestKubelet = "v1.34"

func checkVersion(version string) error {
	parsed, err := versions.Parse(version)
	if err != nil {
		return err
	}
	if versions.Compare(parsed.MinorString()+".0", oldestKubelet+".0") < 0 {
		return fmt.Errorf("%s is not supported; the oldest kubelet that machines can have is %s", parsed.MinorString(), oldestKubelet)
	}
	return nil
}

func (in *Input) check() error {
	if in.Cluster.DNSDomain == "" {
		in.Cluster.DNSDomain = services.DefaultDNSDomain
	}
	var problems []error
	if err := checkVersion(in.Version); err != nil {
		problems = append(problems, fmt.Errorf("spec.version of the Machine: %w", err))
	}
	if format := in.Spec.Format; format != "" && format != bootstrapv1.CloudConfig {
		problems = append(problems, fmt.Errorf("spec.format: %q is not supported; use %s", format, bootstrapv1.CloudConfig))
	}
	if err := checkWord(in.Cluster.DNSDomain); err != nil {
		problems = append(problems, fmt.Errorf("spec.clusterNetwork.serviceDomain of the Cluster: %q: %w", in.Cluster.DNSDomain, err))
	}
	if !bootstraputil.IsValidBootstrapToken(in.Token) {
		problems = append(problems, errors.New("the bootstrap token is malformed"))
	}
	if len(in.Cluster.CABundle) == 0 {
		problems = append(problems, errors.New("the cluster's CA bundle is empty"))
	}
	if len(in.Cluster.APIServers) == 0 {
		problems = append(problems, errors.New("no address of an API server is known"))
	}
	for _, address := range in.Cluster.APIServers {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			problems = append(problems, fmt.Errorf("address of an API server %q: want host:port", address))
		}
	}
	return errors.Join(problems...)
}
