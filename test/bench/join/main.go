// Command join measures how long a machine with its software preinstalled takes from the creation of its Machine until
// its Node is ready: alone, and five together. It needs the lab with the providers installed, adds six workers to it,
// and takes them away again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nbench join: %v\n", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:           "join",
		Short:         "Time from the creation of a Machine until its Node is ready",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.together < 1 {
				return errors.New("--together must be at least 1")
			}
			b, err := open(cmd.Context(), o)
			if err != nil {
				return err
			}
			// What was made goes also after an interrupt.
			defer func() { err = errors.Join(err, b.close(context.WithoutCancel(cmd.Context()))) }()
			return b.run(cmd.Context())
		},
	}
	cmd.Flags().IntVar(&o.together, "together", 5, "machines that join at once in the second part")
	cmd.Flags().StringVar(&o.repository, "repository", "out", "folder that make release-manifests wrote")
	cmd.Flags().StringVar(&o.programs, "programs", "bin", "folder with the programs of the providers")
	cmd.Flags().StringVar(&o.template, "template", "templates/cluster-template.yaml", "template of the tenant")
	return cmd
}
