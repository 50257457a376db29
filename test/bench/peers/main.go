// Command peers measures control planes of this product and of another one, in turn and in the same way: it applies manifests, and waits for a
// kubeconfig. A folder describes the other product. It needs the lab with the providers installed, and leaves nothing behind but images.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/beside"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/machine"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/session"
)

type options struct {
	peer             string
	rounds, together int
	from, to         string
	settle           time.Duration
}

func main() { program.Run("bench peers", command(), "") }

func command() *cobra.Command {
	o, versions := &options{}, artifacts.DefaultVersions().Tenants
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Creation, upgrade and deletion of control planes, beside those of another product",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.rounds < 1 || o.together < 1 {
				return errors.New("--rounds and --together must be at least 1")
			}
			if o.peer == "" {
				fmt.Println("No other product is measured: make bench-peers PEER=<folder> names one. docs/performance.md says what is in the folder.")
				return nil
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.peer, "peer", "", "folder that describes another product; docs/performance.md says how")
	cmd.Flags().IntVar(&o.rounds, "rounds", 3, "control planes of each product that are created, upgraded and deleted, in turn")
	cmd.Flags().IntVar(&o.together, "together", 10, "control planes that are created at once")
	cmd.Flags().StringVar(&o.from, "from", versions[0], "Kubernetes version that control planes are created with")
	cmd.Flags().StringVar(&o.to, "to", versions[len(versions)-1], "Kubernetes version that they are upgraded to")
	cmd.Flags().DurationVar(&o.settle, "settle", 2*time.Minute, "how long each measurement waits at most until the machine is idle")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	peer, err := readPeer(o.peer)
	if err != nil {
		return err
	}
	own, err := ours()
	if err != nil {
		return err
	}
	release, err := machine.Claim()
	if err != nil {
		return err
	}
	defer release()
	s, err := session.Open(ctx, progress.New(os.Stdout, time.Now()))
	if err != nil {
		return err
	}
	b := &bench{options: o, Session: s, own: own, peer: peer, took: samples{}, failed: map[*product]int{}, sent: map[*product]int{}}
	// What an interrupted benchmark left is in the way.
	if err := b.clean(ctx); err != nil {
		return err
	}
	hosts, err := s.Hosts()
	if err != nil {
		return err
	}
	if b.others, err = beside.Find(ctx, s.Client, hosts, ""); err != nil {
		return err
	}
	s.Log.Print("beside it: %s", b.others)
	err = b.measure(ctx)
	if err == nil {
		err = b.report()
	}
	ending := context.WithoutCancel(ctx)
	return errors.Join(err, b.clean(ending), b.uninstall(ending), b.others.Recovered(ending))
}
