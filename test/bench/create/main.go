// Command create measures how long a tenant's control plane takes from apply until it can be used, beside the floor:
// the same programs, arguments and certificates on the same hosts, started as plain processes. It needs the lab with
// the providers installed, and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
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

func main() {
	// Clients' own words would tear the tables.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err != nil && interrupted:
		fmt.Fprintf(os.Stderr, "\ninterrupted: %v\n", err)
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\nbench create: %v\n", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:           "create",
		Short:         "Time from apply to a usable control plane, beside the same programs started as plain processes",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
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
