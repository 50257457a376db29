// Package program is what the programs of the tests have in common: how they start and how they end.
package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// interruptedStatus is the exit status of a program that a person interrupted, as shells have it.
const interruptedStatus = 130

// Run runs a command and ends the program with its exit status. An interrupt ends the command's context; it is told
// to people with the hint, if there is one. Clients' own logs are silent: what goes wrong is told by errors, and they
// would tear tables and progress apart.
func Run(name string, command *cobra.Command, hint string) {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	command.SilenceUsage, command.SilenceErrors = true, true
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted:
		fmt.Fprintf(os.Stderr, "\n%s: interrupted: %v%s\n", name, err, hint)
		os.Exit(interruptedStatus)
	default:
		fmt.Fprintf(os.Stderr, "\n%s: %v\n", name, err)
		os.Exit(1)
	}
}
