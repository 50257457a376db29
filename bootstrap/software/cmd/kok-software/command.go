package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/check"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/fetch"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/kernel"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/packages"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/units"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/validation"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// options are the flags of all commands.
type options struct {
	document    string
	timeout     time.Duration
	stall       time.Duration
	retryFailed bool
	output      string
}

func newCommand() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "kok-software",
		Short: "Makes a machine have the software that its document describes",
		Long: `Makes a machine have the software that its document describes. It runs as root.

Everything that is downloaded is checked before anything is replaced. A component whose check fails is taken
back: the revision before comes back, or nothing if there was none. The result of the last run is in
` + software.ResultFile + `.`,
		Version: version.Get().String(), SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	install := &cobra.Command{
		Use: "install", Short: "Make the machine as the document says", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.run(command, func(ctx context.Context, p *program.Program) error {
				return p.Install(ctx, func() (software.Document, error) { return validation.Read(o.document) })
			})
		},
	}
	install.Flags().StringVar(&o.document, "document", software.DocumentFile, "File with the document, in JSON.")
	install.Flags().BoolVar(&o.retryFailed, "retry-failed", false, "Try revisions again whose check failed before.")
	install.Flags().DurationVar(&o.stall, "stall-time", fetch.DefaultStall, "How long a server may send no byte until another one is tried.")
	checks := &cobra.Command{
		Use: "check", Short: "Check every component; one that never worked is taken back when it does not", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.run(command, func(ctx context.Context, p *program.Program) error { return p.Check(ctx) })
		},
	}
	remove := &cobra.Command{
		Use: "remove", Short: "Make the machine as it was before the first install; packages stay", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.run(command, func(ctx context.Context, p *program.Program) error { return p.Remove(ctx) })
		},
	}
	for _, command := range []*cobra.Command{install, checks, remove} {
		command.Flags().DurationVar(&o.timeout, "timeout", 30*time.Minute, "How long it may take.")
	}
	show := &cobra.Command{
		Use: "status", Short: "Print what is installed", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.status(command.OutOrStdout()) },
	}
	show.Flags().StringVarP(&o.output, "output", "o", "", "Format: json, or a table if unset.")
	root.AddCommand(install, checks, remove, show)
	return root
}

// machine is this machine.
func machine() *disk.Disk { return &disk.Disk{Root: "/"} }

// checkUser refuses users other than root.
func checkUser(command string, user int) error {
	if user != 0 {
		return fmt.Errorf("%s must run as root", command)
	}
	return nil
}

// run runs something as root, until it ends, is interrupted or is out of time.
func (o *options) run(command *cobra.Command, do func(ctx context.Context, p *program.Program) error) error {
	if err := checkUser(command.CommandPath(), os.Geteuid()); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("it took longer than --timeout=%s", o.timeout))
	defer cancel()
	manager := &units.Systemd{}
	defer manager.Close()
	here := machine()
	p := &program.Program{
		Disk: here, Units: manager, Checker: check.New(manager), Packages: packages.APT{}, Kernel: &kernel.Kernel{Disk: here},
		Facts: func() (facts.Facts, error) { return facts.Read(here.Root) }, RetryFailed: o.retryFailed, Log: command.ErrOrStderr(),
	}
	p.Fetcher = func(mirrors []software.Mirror) program.Fetcher {
		return fetch.New(fetch.Options{Disk: here, Mirrors: mirrors, Stall: o.stall, Say: p.Say})
	}
	return do(ctx, p)
}

func (o *options) status(out io.Writer) error {
	status, err := program.ReadStatus(machine())
	if err != nil {
		return err
	}
	switch o.output {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(status)
	case "":
		return table(out, status)
	}
	return fmt.Errorf("--output=%s: it is json or unset", o.output)
}

func table(out io.Writer, status program.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "COMPONENT\tSTATE\tREVISION\tBEFORE\tUNIT")
	for _, c := range status.Components {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%.12s\t%.12s\t%s\n", c.Name, c.State, c.Revision, c.Before, c.Unit)
	}
	if status.Result != nil && status.Result.Reason != "" {
		_, _ = fmt.Fprintf(w, "\nThe last run failed: %s: %s\n", status.Result.Reason, status.Result.Message)
	}
	return w.Flush()
}
