// Command bootstrap measures what the bootstrap manager takes for many Clusters and Machines: the manager's own program, against a real
// kube-apiserver and etcd. It is a benchmark only: it writes itself what Cluster API, the other providers and kubelets would write, and
// tenants' APIs are simulated (package standin).
package main

import (
	"cmp"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/manager"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

type options struct {
	clusters, machines, first int
	manager                   string
	rest                      time.Duration
	profiles                  string
	managerFlags              []string
}

func main() { program.Run("bench scale of the bootstrap manager", command(), "") }

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Time, processor time, memory and requests of the bootstrap manager for many Clusters and Machines",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.clusters < 1 || o.machines < 1 || o.first < 1 {
				return errors.New("--clusters, --machines and --first must be at least 1")
			}
			o.first = min(o.first, o.machines)
			return run(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVar(&o.clusters, "clusters", 1000, "how many Clusters there are")
	cmd.Flags().IntVar(&o.machines, "machines", 10000, "how many Machines there are in the end, in turn in each Cluster")
	cmd.Flags().IntVar(&o.first, "first", 1000, "how many of them are made before the others, to compare what a Machine costs")
	cmd.Flags().StringVar(&o.manager, "manager", "bin/bootstrap-manager", "the manager's program")
	cmd.Flags().DurationVar(&o.rest, "rest", 150*time.Second, "how long the manager is measured at rest")
	cmd.Flags().StringVar(&o.profiles, "profiles", "", "folder for the manager's profiles and its log; empty for none")
	cmd.Flags().StringArrayVar(&o.managerFlags, "manager-flag", nil, "a flag that the manager gets, too, for example --kokconfig-concurrency=10")
	return cmd
}

// Controllers of the manager whose reconciles are counted. That which keeps connections probes them all the time.
const (
	ofConfigs      = "kokconfig"
	ofCertificates = "serving-certificates"
	ofNodes        = "tenant-nodes"
)

func (o *options) program(folder string) manager.Program {
	return manager.Program{
		Path: o.manager, Log: filepath.Join(cmp.Or(o.profiles, folder), "bootstrap-manager.log"), Flags: o.managerFlags,
		Controllers: []string{ofConfigs, ofCertificates, ofNodes},
	}
}
