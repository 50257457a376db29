// Package cli is the command line program kok, for those who run clusters: what kubectl and clusterctl do not do already.
//
// Each command has a package of its own, whose New returns it. New here is the one place that lists them.
package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/bundle"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/exit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/history"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/kubeconfigs"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/undo"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

const (
	name = "kok"
	// pluginName is the name under which kubectl finds a plugin kok, and completionName that of the program which it calls
	// for completions of the plugin.
	pluginName     = "kubectl-kok"
	completionName = "kubectl_complete-kok"
)

const long = `Add and check hosts, describe their software, see what a cluster waits for, see how its control plane was
changed and take that back, write kubeconfigs, take and restore snapshots of etcd, and collect what a support person asks for.

kok works with the management cluster that a kubeconfig names, as kubectl does, and does what kubectl and clusterctl do not.
Under the name kubectl-kok it is a plugin of kubectl: "kubectl kok status blue".

Commands end with 0 when they have no bad news, with 1 when what they were asked about cannot be used, and with 2 when they failed.
"--help" of a command says more.`

// New is the program with all of its commands. program is what people call it.
func New(program string, streams genericiooptions.IOStreams) *cobra.Command {
	cluster := access.New(program, streams)
	root := &cobra.Command{
		Use: name, Short: "Work with the hosts and clusters of Kube-on-Kube", Long: long, Args: cobra.NoArgs,
		Version: version.Get().String(), SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: program},
		RunE:        func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	cluster.AddFlags(root)
	root.AddCommand(hosts.New(cluster), software.New(cluster), status.New(cluster), history.New(cluster), undo.New(cluster), kubeconfigs.New(cluster), etcd.New(cluster), bundle.New(cluster), newVersion())
	if program != name {
		rename(root, program)
	}
	return root
}

// rename puts the name by which the program was called into examples.
func rename(command *cobra.Command, program string) {
	for _, text := range []*string{&command.Example, &command.Long} {
		*text = strings.ReplaceAll(*text, "  "+name+" ", "  "+program+" ")
		*text = strings.ReplaceAll(*text, "until "+name+" ", "until "+program+" ")
	}
	for _, child := range command.Commands() {
		rename(child, program)
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program",
		Long: "Print the version of this program: its release, its commit, and what it was built with and for.", Example: "  kok version",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(command.OutOrStdout(), version.Get())
			return err
		},
	}
}

// Run runs the command line of a program, whose first element is how it was called, and returns its exit status.
func Run(ctx context.Context, arguments []string, streams genericiooptions.IOStreams) int {
	program, rest := called(arguments)
	root := New(program, streams)
	root.SetArgs(rest)
	started := false
	observe(root, func() { started = true })
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !started {
		err = fmt.Errorf("%w; %s --help explains how it is called", err, command.CommandPath())
	}
	status := exit.Status(err)
	if err != nil && ctx.Err() != nil {
		status = exit.Interrupted
	}
	if err != nil && err.Error() != "" {
		_, _ = fmt.Fprintf(streams.ErrOut, "%s: %s\n", program, terminal.Plain(err.Error()))
	}
	return status
}

// observe calls a function right before the work of a command begins. An error before that is about the command line.
func observe(command *cobra.Command, begins func()) {
	if run := command.RunE; run != nil {
		command.RunE = func(command *cobra.Command, args []string) error {
			begins()
			return run(command, args)
		}
	}
	for _, child := range command.Commands() {
		observe(child, begins)
	}
}

// called is what people call the program, and the arguments of its command.
func called(arguments []string) (program string, rest []string) {
	switch base := strings.TrimSuffix(filepath.Base(arguments[0]), ".exe"); base {
	case pluginName:
		return "kubectl " + name, arguments[1:]
	case completionName:
		return "kubectl " + name, append([]string{cobra.ShellCompRequestCmd}, arguments[1:]...)
	default:
		return name, arguments[1:]
	}
}
