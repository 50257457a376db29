// Command join measures how long a machine takes from the creation of its Machine until its Node is ready: with its software
// preinstalled alone, and five together, and five that install their software from a mirror of the lab. It needs the lab with
// the providers installed, adds workers to it that no other tenant can have, and takes them away again.
package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

func main() { program.Run("bench join", command(), "") }

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "join",
		Short: "Time from the creation of a Machine until its Node is ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.together < 1 {
				return errors.New("--together must be at least 1")
			}
			release, err := machine.Claim()
			if err != nil {
				return err
			}
			defer release()
			b, err := open(cmd.Context(), o)
			if err != nil {
				return err
			}
			// What an interrupted benchmark left would join too.
			if err := b.clean(cmd.Context()); err != nil {
				return err
			}
			// What was made goes also after an interrupt.
			return b.close(cmd.Context(), b.run(cmd.Context()))
		},
	}
	cmd.Flags().IntVar(&o.together, "together", 5, "machines that join at once in the second part")
	cmd.Flags().StringVar(&o.repository, "repository", "out", "folder that make release-manifests wrote")
	cmd.Flags().StringVar(&o.programs, "programs", "bin", "folder with the programs of the providers")
	cmd.Flags().StringVar(&o.template, "template", "templates/cluster-template.yaml", "template of the tenant")
	return cmd
}
