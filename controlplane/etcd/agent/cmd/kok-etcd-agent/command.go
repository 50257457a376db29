package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/look"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
)

// options are the flags of all commands.
type options struct {
	dataDir        string
	terminationLog string
	timeout        time.Duration
	hold           bool
}

func newCommand() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:     "kok-etcd-agent",
		Short:   "Looks after the data of one etcd member, in its pod",
		Version: version.Get().String(), SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	prepare := &cobra.Command{
		Use: "prepare", Short: "Look at the data directory before etcd starts, and tell the manager", Args: cobra.NoArgs,
		Long: `Looks at the data directory of a member that does not run, and tells the manager what it found by the termination
message of this container. It writes nothing into the directory.

It succeeds whatever it finds, and etcd starts: the manager decides, and etcd refuses most bad data by itself. It fails
where there is too little room, until there is enough. With --hold it also fails where etcd would start from bad data and
take no notice of it. A person who sets the variable ` + facts.StartAnyway + ` has etcd start from both.`,
		RunE: func(command *cobra.Command, _ []string) error { return o.prepare(command) },
	}
	prepare.Flags().StringVar(&o.terminationLog, "termination-log", "/dev/termination-log", "File of kubelet that the facts go to, as JSON.")
	prepare.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long looking may take.")
	prepare.Flags().BoolVar(&o.hold, "hold", false, "Fail when data are bad in a way that etcd takes no notice of.")
	lookHere := &cobra.Command{
		Use: "look", Short: "Look at the data directory in this process; prepare runs it", Args: cobra.NoArgs, Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return look.Main(o.dataDir, look.Need, command.OutOrStdout())
		},
	}
	for _, command := range []*cobra.Command{prepare, lookHere} {
		command.Flags().StringVar(&o.dataDir, "data-dir", "", "etcd's data directory, as in its configuration.")
		if err := command.MarkFlagRequired("data-dir"); err != nil {
			panic(err) // The flag is there.
		}
	}
	root.AddCommand(prepare, lookHere)
	root.AddCommand(backupCommands()...)
	return root
}

// What makes prepare fail, so that kubelet runs it again.
var (
	errHeld    = errors.New("etcd would start from these data and take no notice: it is held until the manager, or a person, replaces or restores this member")
	errNoSpace = errors.New("etcd is held until there is room")
)

// prepare fails for nothing but what it found: a look that failed is no reason to keep a member from starting.
func (o *options) prepare(command *cobra.Command) error {
	if o.dataDir == "" {
		return errors.New("--data-dir must name etcd's data directory")
	}
	found := o.look(command.Context())
	if err := o.tellManager(found); err != nil {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "kok-etcd-agent: the manager is not told: %v\n", err)
	}
	_, _ = fmt.Fprintf(command.OutOrStdout(), "%s: %s\n", o.dataDir, found)
	switch {
	case os.Getenv(facts.StartAnyway) != "":
		return nil
	case found.State == facts.NoSpace:
		return errNoSpace
	case o.hold && found.Unnoticed():
		return errHeld
	}
	return nil
}

func (o *options) tellManager(found facts.Facts) error {
	message, err := found.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(o.terminationLog, message, 0o644) //nolint:gosec // kubelet reads it.
}

// look runs this program again, for damaged data may end the one that reads them.
func (o *options) look(ctx context.Context) facts.Facts {
	program, err := os.Executable()
	if err != nil {
		return facts.Facts{State: facts.Unreadable, Reason: facts.Unknown, Message: fmt.Sprintf("find this program: %v", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return look.Child(ctx, exec.CommandContext(ctx, program, "look", "--data-dir="+o.dataDir))
}
