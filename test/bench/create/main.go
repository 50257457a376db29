// Command create measures how long a tenant's control plane takes from apply until it can be used, beside the floor:
// the same programs, arguments and certificates on the same hosts, started as plain processes. It needs the lab with
// the providers installed, and leaves nothing behind.
package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

// Modes of the benchmark.
const (
	modeHA     = "ha"
	modeSingle = "single"
	modeMany   = "many"
)

type options struct {
	runs, many  int
	modes       []string
	settleLimit time.Duration
}

func main() { program.Run("bench create", command(), "") }

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Time from apply to a usable control plane, beside the same programs started as plain processes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVar(&o.runs, "runs", 3, "runs of the tenant and of the floor, in turn, for each of ha and single")
	cmd.Flags().IntVar(&o.many, "tenants", 10, "tenants that are applied together in the mode many")
	cmd.Flags().StringSliceVar(&o.modes, "modes", []string{modeHA, modeSingle, modeMany},
		"what is measured: ha, single (one replica of each component), many (single tenants applied together)")
	cmd.Flags().DurationVar(&o.settleLimit, "settle", 2*time.Minute, "how long each run waits at most until the machine is idle")
	return cmd
}

func (o *options) check() error {
	if o.runs < 1 || o.many < 1 {
		return errors.New("--runs and --tenants must be at least 1")
	}
	all := []string{modeHA, modeSingle, modeMany}
	for _, mode := range o.modes {
		if !slices.Contains(all, mode) {
			return fmt.Errorf("--modes: %q is none of %s", mode, strings.Join(all, ", "))
		}
	}
	return nil
}
