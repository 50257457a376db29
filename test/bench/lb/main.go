// Command lb compares ways to real kube-apiservers of this machine: a direct connection, kok-apiserver-lb, and Debian's
// HAProxy and nginx. They take turns, so that what else the machine does meets them all. It needs root: it runs in network
// and process namespaces of its own, and leaves nothing behind but the Debian packages.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
)

// What can be measured.
const (
	measureRequests    = "requests"
	measureConnections = "connections"
	measureList        = "list"
	measureWatches     = "watches"
	measureFaults      = "faults"
	measureWorkers     = "workers"
)

type options struct {
	assets, program string
	measures        []string
	connections     []int
	rounds, watches int
	duration        time.Duration
	workers         int
	idle            time.Duration
	settleLimit     time.Duration
}

func main() { program.Run("bench lb", command(), "") }

func command() *cobra.Command {
	o := &options{}
	all := []string{measureRequests, measureConnections, measureList, measureWatches, measureFaults, measureWorkers}
	cmd := &cobra.Command{
		Use:   "lb",
		Short: "kok-apiserver-lb beside a direct connection, HAProxy and nginx, in front of real kube-apiservers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(all); err != nil {
				return err
			}
			return isolated(cmd.Context(), func() error { return run(cmd.Context(), o) })
		},
	}
	cmd.Flags().StringVar(&o.assets, "assets", "bin/envtest", "folder with etcd and kube-apiserver (go run ./hack/envtest-assets FOLDER)")
	cmd.Flags().StringVar(&o.program, "kok-apiserver-lb", "bin/kok-apiserver-lb", "the program that is measured")
	cmd.Flags().StringSliceVar(&o.measures, "measures", all, "what is measured")
	cmd.Flags().IntSliceVar(&o.connections, "connections", []int{1, 8, 64}, "numbers of connections that requests go over at the same time")
	cmd.Flags().IntVar(&o.rounds, "rounds", 3, "how often each way has its turn")
	cmd.Flags().DurationVar(&o.duration, "duration", 3*time.Second, "how long a turn is")
	cmd.Flags().IntVar(&o.watches, "watches", 1000, "number of watches, each on a connection of its own")
	cmd.Flags().IntVar(&o.workers, "workers", 100, "number of workers' load balancers whose cost for kube-apiservers is measured")
	cmd.Flags().DurationVar(&o.idle, "idle", time.Minute, "how long these have nothing to do but to probe and to watch, and as long kube-apiservers are measured without them")
	cmd.Flags().DurationVar(&o.settleLimit, "settle", time.Minute, "how long to wait at most until the machine is idle")
	return cmd
}

func (o *options) check(all []string) error {
	if o.rounds < 1 || o.watches < 1 || o.duration <= 0 || len(o.connections) == 0 || slices.Min(o.connections) < 1 {
		return errors.New("--rounds, --watches, --duration and --connections must be positive")
	}
	if o.workers < 1 || o.workers > mostWorkers || o.idle < 2*time.Second {
		return fmt.Errorf("--workers must be from 1 to %d, --idle at least 2s", mostWorkers)
	}
	for _, measure := range o.measures {
		if !slices.Contains(all, measure) {
			return fmt.Errorf("--measures: %q is none of %s", measure, strings.Join(all, ", "))
		}
	}
	for _, file := range []string{o.assets + "/kube-apiserver", o.program} {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("%w: make bench-lb builds it", err)
		}
	}
	return nil
}
