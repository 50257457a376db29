package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/csr"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/kubelet"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/node"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// options are the flags of all commands.
type options struct {
	folder, hash   string
	status         string
	terminationLog string
	patience       time.Duration
}

func newCommand() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:     "kok-node-keys",
		Short:   "Brings the keys of this node through a rotation of the cluster CA",
		Version: version.Get().String(), SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&o.status, "status", "/run/status/status.json", "File in which run tells ready how far it has come.")
	run := &cobra.Command{
		Use: "run", Short: "Bring the node to what is wanted, and keep it so", Args: cobra.NoArgs,
		Long: `Brings the node to what is wanted, and keeps it so until it is told to end.

It writes the CAs to trust where kubelet and kok-apiserver-lb read them. Where a signer is wanted it asks the tenant, as the node,
for other certificates of kubelet. It sends kubelet SIGTERM once when kubelet has not read what changed; the service manager of the
node has to start it again. It touches no pod. On a node that has come further it changes nothing.`,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	run.Flags().StringVar(&o.folder, "wanted", "/etc/kok-node-keys", "Folder with order, which says how far along the rotation is, with trusted.crt, the CAs to trust, and with signer.crt when a CA has to have signed kubelet's certificates.")
	run.Flags().StringVar(&o.hash, "hash", "", "Hash of what is wanted, which the folder must have.")
	run.Flags().DurationVar(&o.patience, "patience", 5*time.Minute, "How long something may be waited for before the program ends, so that the pod's status tells what.")
	run.Flags().StringVar(&o.terminationLog, "termination-log", "/dev/termination-log", "File of kubelet that says why the program ended.")
	ready := &cobra.Command{
		Use: "ready", Short: "Fail, with the reason, while the node is not as wanted", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return program.Ready(o.status, time.Now()) },
	}
	root.AddCommand(run, ready)
	return root
}

func (o *options) run(command *cobra.Command) error {
	n := &node.Node{
		Paths: node.DefaultPaths(), Disk: &disk.Disk{Root: "/"}, Log: klog.Background(),
		Find: func() (*kubelet.Process, error) { return kubelet.Find(kubelet.Name) },
	}
	n.Requests = &csr.Requests{Connect: csr.AsNode(n.Kubeconfig, "kok-node-keys/"+version.Get().String()), Clock: clock.RealClock{}}
	p := &program.Program{Node: n, Folder: o.folder, Hash: o.hash, Lock: onworker.NodeKeysDir + "lock", Status: o.status, Patience: o.patience}
	err := p.Run(command.Context())
	if err != nil {
		if told := os.WriteFile(o.terminationLog, []byte(err.Error()), 0o644); told != nil { //nolint:gosec // Kubelet reads it.
			_, _ = fmt.Fprintf(command.ErrOrStderr(), "kok-node-keys: the pod's status does not say why: %v\n", told)
		}
	}
	return err
}
