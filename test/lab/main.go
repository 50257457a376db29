// Command lab runs a real host cluster on one machine: hosts booted with systemd on two sites, a cloud and a data
// centre, whose link can be cut.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		// A command in a host ended so; it said itself why.
		os.Exit(exit.ExitCode())
	case interrupted:
		fmt.Fprintln(os.Stderr, "lab: interrupted; run the same command again to go on")
		os.Exit(130)
	default:
		fmt.Fprintf(os.Stderr, "lab: %v\n", err)
		os.Exit(1)
	}
}

// root is the command with all its commands. The state directory is chosen by --state, KOK_LAB_STATE or the default.
func root() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:           "lab",
		Short:         "A real host cluster on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().StringVar(&state, "state", lab.StateDirectory(), "directory of the lab's disks and records (KOK_LAB_STATE)")
	open := func() (*lab.Lab, error) { return lab.Open(state) }
	cmd.AddCommand(
		upCommand(open), downCommand(open), statusCommand(open), execCommand(open),
		cutCommand(open), healCommand(open), powerOffCommand(open), powerOnCommand(open), addHostCommand(open), removeHostCommand(open),
		kubeconfigCommand(open), loadImageCommand(open), collectCommand(open), mirrorCommand(open),
	)
	return cmd
}

// opener gives the lab that the command line names.
type opener func() (*lab.Lab, error)

// run is a command's work on the opened lab.
func (o opener) run(f func(ctx context.Context, l *lab.Lab, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		l, err := o()
		if err != nil {
			return err
		}
		return f(cmd.Context(), l, args)
	}
}
