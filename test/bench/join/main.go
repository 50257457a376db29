// Command join measures how long a machine takes from the creation of its Machine until its Node is ready: with its software
// preinstalled alone, and five together, and five that install their software from a mirror of the lab. It needs the lab with
// the providers installed, adds workers to it that no other tenant can have, and takes them away again.
package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/onetenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

func main() { program.Run("bench join", command(), "") }

func command() *cobra.Command {
	o := &options{}
	cmd := onetenant.Command("join", "Time from the creation of a Machine until its Node is ready", "templates/cluster-template.yaml", o.check,
		func(ctx context.Context, of *onetenant.Bench) error {
			b := &bench{options: o, Bench: of}
			// What an interrupted benchmark left would join too.
			if err := b.clean(ctx); err != nil {
				return err
			}
			// What was made goes also after an interrupt.
			return b.close(ctx, b.run(ctx))
		})
	cmd.Flags().IntVar(&o.together, "together", 5, "machines that join at once in the second part")
	cmd.Flags().StringVar(&o.programs, "programs", "bin", "folder with the programs of the providers")
	return cmd
}

func (o *options) check() error {
	if o.together < 1 {
		return errors.New("--together must be at least 1")
	}
	return nil
}
