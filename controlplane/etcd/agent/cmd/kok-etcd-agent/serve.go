package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/serve"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
)

func serveCommand() *cobra.Command {
	var o serve.Options
	command := &cobra.Command{
		Use: "serve", Short: "Take snapshots beside a member, and tell the manager of them", Args: cobra.NoArgs,
		Long: `Takes a snapshot of each slot of time while its member is on duty, which is the first healthy follower by name, verifies it,
and deletes what expired. It answers the manager by TLS, and goes on whatever fails. While the manager has not asked for five minutes
it makes room in an etcd that has reached its quota.`,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			var err error
			if o.Program, err = snapshot.ThisProgram(restoreHere); err != nil {
				return err
			}
			if _, err := exec.LookPath(o.Etcd); err != nil {
				return fmt.Errorf("--etcd: %w", err)
			}
			o.Log = slog.New(slog.NewTextHandler(command.ErrOrStderr(), nil))
			return serve.Run(ctx, o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.ConfigDir, "config-dir", backup.ConfigDirectory, "Folder of the manager's Secret.")
	flags.StringVar(&o.Member, "member", "", "Name of the member, as in its configuration.")
	flags.StringVar(&o.Endpoint, "endpoint", "", "Address of the member: https://127.0.0.1:2379.")
	flags.StringVar(&o.Client.CA, "cacert", "", "File with etcd's CA.")
	flags.StringVar(&o.Client.Certificate, "cert", "", "File with the certificate of a client of etcd.")
	flags.StringVar(&o.Client.Key, "key", "", "File with the key of that certificate.")
	flags.StringVar(&o.Listen, "listen", "", "Address and port that the manager is answered at.")
	flags.StringVar(&o.Serving.Certificate, "serve-cert", "", "File with the certificate that the manager is shown.")
	flags.StringVar(&o.Serving.Key, "serve-key", "", "File with the key of that certificate.")
	flags.StringVar(&o.Serving.ClientCA, "client-ca", "", "File with the CA of the manager's certificate.")
	flags.StringVar(&o.Serving.ClientName, "client-name", "kok-control-plane", "Common name of the manager's certificate.")
	flags.StringVar(&o.Serving.PeerName, "peer-name", "", "Common name of the certificate by which other members dial, where each has a volume of its own for snapshots.")
	flags.StringVar(&o.Scratch, "scratch", backup.ScratchDirectory, "Folder with room for twice the size of the database, and some more.")
	flags.StringVar(&o.DataDir, "data-dir", "", "Folder on the volume of the member.")
	flags.Int64Var(&o.Quota, "quota", 0, "What the member's database may become, in bytes.")
	flags.StringVar(&o.StoreDir, "store-dir", backup.StoreDirectory, "Folder of the snapshots, where they are on a volume.")
	flags.StringVar(&o.Etcd, "etcd", "etcd", "Program of etcd that is tried with snapshots.")
	required(command, "member", "endpoint", "cacert", "cert", "key", "data-dir", "quota", "listen", "serve-cert", "serve-key", "client-ca")
	return command
}
