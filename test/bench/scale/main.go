// Command scale measures what the control plane manager takes for many tenants: the manager's own program, against a real
// kube-apiserver and etcd. It is a benchmark only: what a host cluster has beside these, and all that runs in tenants, is simulated
// (package standin), so that it measures the manager, and not how fast tenants come.
package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

type options struct {
	tenants, first int
	shape          string
	manager        string
	rest           time.Duration
	profiles       string
	managerFlags   []string
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
	if o.tenants > blocks {
		return fmt.Errorf("--tenants must be at most %d: there are no more blocks of host ports in %s, the widest range that the manager takes", blocks, portRange)
	}
	if o.shape != shape.HighlyAvailable.Name && o.shape != shape.Single.Name {
		return errors.New("--shape must be ha or single")
	}
	return nil
}

func (o *options) of() shape.Shape {
	if o.shape == shape.Single.Name {
		return shape.Single
	}
	return shape.HighlyAvailable
}
