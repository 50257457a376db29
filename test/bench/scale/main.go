// Command scale measures what the control plane manager takes for many tenants: the manager's own program, against a real
// kube-apiserver and etcd. It is a benchmark only: what a host cluster has beside these, and all that runs in tenants, is simulated
// (package standin), so that it measures the manager, and not how fast tenants come.
package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

type options struct {
	tenants, first int
	// perPool is the number of tenants in a port pool; 0 for no pools.
	perPool      int
	shape        string
	manager      string
	rest         time.Duration
	profiles     string
	managerFlags []string
}

func main() { program.Run("bench scale", command(), "") }

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Time, processor time, memory and requests of the control plane manager for many tenants",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVar(&o.tenants, "tenants", 1000, "how many tenants there are in the end")
	cmd.Flags().IntVar(&o.first, "first", 100, "how many of them are made before the others, to compare what a tenant costs")
	cmd.Flags().IntVar(&o.perPool, "tenants-per-pool", 0, fmt.Sprintf("how many tenants a port pool has; 0 for no pools for at most %d tenants, and else for %d", blocks, perPool))
	cmd.Flags().StringVar(&o.shape, "shape", shape.HighlyAvailable.Name, "of tenants: ha, or single (one replica of each component)")
	cmd.Flags().StringVar(&o.manager, "manager", "bin/manager", "the manager's program")
	cmd.Flags().DurationVar(&o.rest, "rest", 150*time.Second, "how long the manager is measured at rest")
	cmd.Flags().StringVar(&o.profiles, "profiles", "", "folder for the manager's profiles and its log; empty for none")
	cmd.Flags().StringArrayVar(&o.managerFlags, "manager-flag", nil, "a flag that the manager gets, too, for example --kokcontrolplane-concurrency=30")
	return cmd
}

func (o *options) check() error {
	switch {
	case o.tenants < 1 || o.first < 1:
		return errors.New("--tenants and --first must be at least 1")
	case o.tenants < o.first:
		o.first = o.tenants
	}
	if o.perPool < 0 || o.perPool > blocks {
		return fmt.Errorf("--tenants-per-pool must be at most %d: there are no more blocks of host ports in %s, the widest range that the manager takes", blocks, portRange)
	}
	if o.perPool == 0 && o.tenants > blocks {
		o.perPool = perPool
	}
	if o.shape != shape.HighlyAvailable.Name && o.shape != shape.Single.Name {
		return errors.New("--shape must be ha or single")
	}
	return nil
}

// poolOf is the port pool of a tenant; empty for none.
func (o *options) poolOf(tenant int) string {
	if o.perPool == 0 {
		return ""
	}
	return fmt.Sprintf("pool-%d", tenant/o.perPool)
}

// pools are the port pools of all tenants; a single empty one where there are none.
func (o *options) pools() []string {
	pools := []string{o.poolOf(0)}
	for tenant := 0; o.perPool != 0 && tenant < o.tenants; tenant += o.perPool {
		pools = append(pools, o.poolOf(tenant))
	}
	return slices.Compact(pools)
}

func (o *options) of() shape.Shape {
	if o.shape == shape.Single.Name {
		return shape.Single
	}
	return shape.HighlyAvailable
}
