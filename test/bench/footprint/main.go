// Command footprint measures what an idle control plane takes of its host nodes: memory, processor time and writes to disk, by
// component, when it has run for a while, and again with some thousand objects. It needs the lab with the providers installed, and takes
// its tenants away again.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/onetenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

type options struct {
	after, calm, window time.Duration
	objects             int
	shapes              []string
}

// shapes are the control planes that can be measured, by their names.
var shapes = map[string]shape.Shape{shape.HighlyAvailable.Name: shape.HighlyAvailable, shape.Single.Name: shape.Single}

func main() { program.Run("bench footprint", command(), "") }

func command() *cobra.Command {
	o := &options{}
	cmd := onetenant.Command("footprint", "Memory, processor time and writes to disk of an idle control plane", "templates/cluster-template-control-plane.yaml", o.check,
		func(ctx context.Context, of *onetenant.Bench) error { return (&bench{options: o, Bench: of}).run(ctx) })
	cmd.Flags().DurationVar(&o.after, "after", 10*time.Minute, "how long a control plane runs before it is measured")
	cmd.Flags().DurationVar(&o.calm, "calm", time.Minute, "how long it is left alone after its objects were written")
	cmd.Flags().DurationVar(&o.window, "window", time.Minute, "how long processor time and writes to disk are counted")
	cmd.Flags().IntVar(&o.objects, "objects", 5000, "ConfigMaps of one KiB that are written before it is measured again")
	cmd.Flags().StringSliceVar(&o.shapes, "shapes", []string{shape.HighlyAvailable.Name, shape.Single.Name}, "what is measured: ha, single (one replica of each component, on one host node)")
	return cmd
}

func (o *options) check() error {
	if o.window < time.Second || o.objects < 1 {
		return errors.New("--window must be at least 1s, and --objects at least 1")
	}
	for _, name := range o.shapes {
		if _, known := shapes[name]; !known {
			return fmt.Errorf("--shapes: %q is none of %s", name, strings.Join([]string{shape.HighlyAvailable.Name, shape.Single.Name}, ", "))
		}
	}
	if len(o.shapes) == 0 || len(slices.Compact(slices.Sorted(slices.Values(o.shapes)))) < len(o.shapes) {
		return errors.New("--shapes must name each shape once, and at least one")
	}
	return nil
}
