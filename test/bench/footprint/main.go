// Command footprint measures what an idle control plane takes of its host nodes: memory, processor time and writes to disk, by
// component, when it has run for a while, and again with some thousand objects. It needs the lab with the providers installed, and takes
// its tenants away again.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/onetenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

type options struct {
	after, calm, window time.Duration
	objects             int
	names               []string
	// shapes are those that names are of.
	shapes []shape.Shape
}

// known are the control planes that can be measured.
var known = []shape.Shape{shape.HighlyAvailable, shape.Single, shape.Small}

func main() { program.Run("bench footprint", command(), "") }

func command() *cobra.Command {
	o := &options{}
	cmd := onetenant.Command("footprint", "Memory, processor time and writes to disk of an idle control plane", "templates/cluster-template-control-plane.yaml", o.check,
		func(ctx context.Context, of *onetenant.Bench) error { return (&bench{options: o, Bench: of}).run(ctx) })
	cmd.Flags().DurationVar(&o.after, "after", 10*time.Minute, "how long a control plane runs before it is measured")
	cmd.Flags().DurationVar(&o.calm, "calm", time.Minute, "how long it is left alone after its objects were written")
	cmd.Flags().DurationVar(&o.window, "window", time.Minute, "how long processor time and writes to disk are counted")
	cmd.Flags().IntVar(&o.objects, "objects", 5000, "ConfigMaps of one KiB that are written before it is measured again")
	cmd.Flags().StringSliceVar(&o.names, "shapes", []string{shape.HighlyAvailable.Name, shape.Single.Name, shape.Small.Name},
		"what is measured: ha, single (one replica of each component, on one host node), small (the same, with events in the etcd that has the data)")
	return cmd
}

func (o *options) check() error {
	if o.window < time.Second || o.objects < 1 {
		return errors.New("--window must be at least 1s, and --objects at least 1")
	}
	for _, name := range o.names {
		s, err := shape.Named(name, known...)
		if err != nil {
			return fmt.Errorf("--shapes: %w", err)
		}
		o.shapes = append(o.shapes, s)
	}
	if len(o.names) == 0 || len(slices.Compact(slices.Sorted(slices.Values(o.names)))) < len(o.names) {
		return errors.New("--shapes must name each shape once, and at least one")
	}
	return nil
}
