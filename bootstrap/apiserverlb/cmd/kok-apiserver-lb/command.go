package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/configuration"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/serviceaddress"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// statusTimeout bounds the request for the status of a running program.
const statusTimeout = 10 * time.Second

// errNoneReady makes status fail.
var errNoneReady = errors.New("no API server is ready")

// options are the flags of all commands.
type options struct {
	config     string
	kubeconfig string
	listen     string
	address    string
	serve      string
}

func newCommand() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "kok-apiserver-lb",
		Short: "Balances the connections of this machine over the API servers of a cluster, without ending TLS",
		Long: `Balances the connections of this machine over the API servers of a cluster, without ending TLS.

On a worker it is a systemd service with a configuration file. On an admin's machine a kubeconfig is enough:

  kok-apiserver-lb --kubeconfig=admin.conf

prints the server to use instead of the one in the kubeconfig, and serves until it is interrupted. "kok kubeconfig" writes
kubeconfigs for a systemd service of a person's own, kok-apiserver-lb@CLUSTER.`,
		Version: version.Get().String(), SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command.Context(), command.OutOrStdout()) },
	}
	logging := flag.NewFlagSet("logging", flag.ContinueOnError)
	klog.InitFlags(logging)
	root.PersistentFlags().AddGoFlag(logging.Lookup("v"))
	root.PersistentFlags().StringVar(&o.config, "config", configuration.DefaultPath, "Configuration file.")
	o.addRunFlags(root)

	run := &cobra.Command{
		Use: "run", Short: "Serve until interrupted; what the program does without a command", Args: cobra.NoArgs, RunE: root.RunE,
	}
	o.addRunFlags(run)

	show := &cobra.Command{
		Use: "status", Short: "Print the API servers, their state, connections and last error; fails when none is ready", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.status(command.Context(), command.OutOrStdout())
		},
	}
	show.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig that the running program serves by, instead of a configuration file.")
	show.Flags().StringVar(&o.address, "address", "", "Status address of the running program; by default that of the configuration file, or "+configuration.DefaultStatusAddress+" without one.")

	release := &cobra.Command{
		Use: "release", Short: "Give the address of the Service kubernetes back, after a program that could not do it itself", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.release() },
	}
	root.AddCommand(run, show, release)
	return root
}

func (o *options) addRunFlags(command *cobra.Command) {
	command.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "Serve by this kubeconfig instead of a configuration file.")
	command.Flags().StringVar(&o.listen, "listen-address", "", "Address to serve at with --kubeconfig, by default "+configuration.DefaultListenAddress+".")
	command.Flags().StringVar(&o.serve, "status-address", "", "Address of status, metrics and health with --kubeconfig, by default "+configuration.DefaultStatusAddress+".")
}

func (o *options) run(ctx context.Context, out io.Writer) error {
	c, err := o.configuration()
	if err != nil {
		return err
	}
	if err := c.Prepare(); err != nil {
		return err
	}
	p, err := program.New(c, klog.Background())
	if err != nil {
		return err
	}
	p.Serving = func() {
		if o.kubeconfig != "" {
			_, _ = fmt.Fprintf(out, "Server to use: https://%s\nFor example: kubectl --kubeconfig=%s --server=https://%s get nodes\n", c.ListenAddress, o.kubeconfig, c.ListenAddress)
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = p.Run(ctx)
	if o.kubeconfig != "" && errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; another program has the port: choose one by kok kubeconfig CLUSTER --port, or by --listen-address and --status-address", err)
	}
	return err
}

func (o *options) configuration() (*configuration.Configuration, error) {
	if o.kubeconfig == "" {
		if o.listen != "" || o.serve != "" {
			return nil, errors.New("--listen-address and --status-address go with --kubeconfig only: the configuration file has both")
		}
		return configuration.Read(o.config)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find a directory for the list of API servers: %w", err)
	}
	return configuration.OfKubeconfig(o.kubeconfig, o.listen, o.serve, filepath.Join(cache, "kok-apiserver-lb"))
}

func (o *options) status(ctx context.Context, out io.Writer) error {
	address, err := o.statusAddress()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	report, err := status.Fetch(ctx, address)
	if err != nil {
		return err
	}
	if err := report.Print(out, time.Now()); err != nil {
		return err
	}
	if report.Ready() == 0 {
		return errNoneReady
	}
	return nil
}

// statusAddress is where the running program serves its status.
func (o *options) statusAddress() (string, error) {
	if o.address != "" {
		return o.address, nil
	}
	c, err := o.configuration()
	switch {
	case err == nil:
		return c.StatusAddress, nil
	case o.kubeconfig == "" && errors.Is(err, os.ErrNotExist):
		return configuration.DefaultStatusAddress, nil
	}
	return "", err
}

func (o *options) release() error {
	c, err := configuration.Read(o.config)
	if err != nil {
		return err
	}
	if c.ServiceAddress == "" {
		return nil
	}
	address, err := netip.ParseAddrPort(c.ServiceAddress)
	if err != nil {
		return err
	}
	return serviceaddress.GiveBack(address)
}
