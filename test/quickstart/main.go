// Command quickstart shows the project on one machine: a host cluster in the lab, the providers
// installed by clusterctl, a tenant control plane made from a template, and a look at it. It can be
// run again at any point: what is there is kept.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

func main() { program.Run("quickstart", command(), "\nrun the same command again to go on") }

func command() *cobra.Command {
	o := &options{}
	var started int64
	cmd := &cobra.Command{
		Use:   "quickstart",
		Short: "A tenant control plane on this machine",
		Args:  cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			o.started = time.Now()
			if started > 0 {
				o.started = time.Unix(started, 0)
			}
			return o.check()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.quickstart(cmd.Context()) },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of an existing host cluster (default: the lab)")
	flags.StringVar(&o.hostVersion, "host-version", "", "Kubernetes version of the lab's host cluster, one of "+strings.Join(artifacts.HostVersions(), ", ")+" (default: the newest)")
	flags.StringVar(&o.repository, "repository", "out", "folder that make release-manifests wrote")
	flags.StringVar(&o.programs, "programs", "bin", "folder with the programs of the providers")
	flags.StringVar(&o.registry, "image-registry", "ghcr.io/kube-on-kube", "registry and path of the providers' images")
	flags.StringVar(&o.tag, "image-tag", "dev", "tag of the providers' images")
	flags.StringVar(&o.providerVersion, "provider-version", "v0.1.0", "version of the providers in the repository")
	flags.Int64Var(&started, "started", 0, "when the work began, in seconds since 1970 (default: now)")
	cmd.Flags().StringVar(&o.template, "template", "", "template of the tenant (default: templates/cluster-template.yaml, with workers, in the lab, else templates/cluster-template-control-plane.yaml)")
	cmd.Flags().StringVar(&o.name, "name", "quickstart", "name of the tenant")
	cmd.Flags().StringVar(&o.namespace, "namespace", "default", "namespace of the tenant")
	cmd.Flags().StringVar(&o.version, "kubernetes-version", "v1.36.3", "Kubernetes version of the tenant")
	cmd.AddCommand(&cobra.Command{
		Use:   "providers",
		Short: "Bring the lab up and install the providers, without a tenant",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.providersOnly(cmd.Context()) },
	})
	return cmd
}

// check finds mistakes on the command line before anything starts.
func (o *options) check() error {
	if o.template == "" {
		o.template = "templates/cluster-template-control-plane.yaml"
		if o.workers() > 0 {
			o.template = "templates/cluster-template.yaml"
		}
	}
	if o.kubeconfig != "" && o.hostVersion != "" {
		return errors.New("--host-version is of the lab, and --kubeconfig names another host cluster: give one of them")
	}
	if o.kubeconfig != "" {
		if _, err := os.Stat(o.kubeconfig); err != nil {
			return fmt.Errorf("read the kubeconfig of the host cluster: %w", err)
		}
	}
	for _, provider := range o.providers() {
		if _, err := os.Stat(provider.Program); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is missing: make build writes it", provider.Program)
		}
	}
	return nil
}
