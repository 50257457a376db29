package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
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
	copyTo         string
	seeding        seeding
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
message of this container. It writes nothing into a directory that has data, unless they are of a former cluster: those are
put aside, into a folder beside the directory.

With --copy-to it first copies this program there, for a container that runs it in another image. With --seed-dir it restores
the snapshot that a directory without data shall begin with, and fails until that is done: etcd would begin without the data.

It succeeds whatever it finds, but for two cases: the manager decides, and etcd refuses most bad data by itself. It fails until
there is enough room. With --hold it also fails where etcd would start from bad data without noticing. A person who sets the
variable ` + facts.StartAnyway + ` has etcd start in both cases, but never before a snapshot that has to be restored is.`,
		RunE: func(command *cobra.Command, _ []string) error { return o.prepare(command) },
	}
	prepare.Flags().StringVar(&o.terminationLog, "termination-log", "/dev/termination-log", "File of kubelet that the facts go to, as JSON.")
	prepare.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "How long looking may take.")
	prepare.Flags().BoolVar(&o.hold, "hold", false, "Fail when data are bad in a way that etcd takes no notice of.")
	prepare.Flags().StringVar(&o.copyTo, "copy-to", "", "Folder that this program is copied to.")
	o.seeding.flags(prepare)
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

// prepare fails for what it found, and where what it was told to do is not done. A look that failed is no reason to keep a member
// from starting, unless data of a former cluster may be there.
func (o *options) prepare(command *cobra.Command) error {
	if o.dataDir == "" {
		return errors.New("--data-dir must name etcd's data directory")
	}
	var copied error
	if o.copyTo != "" {
		copied = copyProgram(o.copyTo)
	}
	found := o.look(command.Context())
	i := o.seeding.instruction()
	aside, moved, kept := i.putAside(o.dataDir, found)
	if moved {
		_, _ = fmt.Fprintf(command.OutOrStdout(), "%s: it is in %s from now on\n", o.dataDir, aside.Path)
		found = o.look(command.Context())
	}
	if kept != nil {
		found.Message = strings.TrimPrefix(found.Message+": "+kept.Error(), ": ")
	}
	var seeded error
	switch found.State {
	case facts.Empty:
		found, seeded = o.seed(command.Context(), i, found)
	case facts.NoSpace:
		// A person may have etcd start without room, and it would begin without the data.
		if i.begins || i.seedErr != nil {
			seeded = errors.Join(errNoSpace, i.seedErr)
		}
	}
	o.tell(command, found)
	switch {
	case copied != nil || kept != nil || seeded != nil:
		return errors.Join(copied, kept, seeded)
	case os.Getenv(facts.StartAnyway) != "":
		return nil
	case found.State == facts.NoSpace:
		return errNoSpace
	case o.hold && found.Unnoticed():
		return errHeld
	}
	return nil
}

// seed restores the snapshot that the member begins with, where there is one, and looks again.
func (o *options) seed(ctx context.Context, i instruction, found facts.Facts) (facts.Facts, error) {
	restored, err := o.seeding.restore(ctx, i, o.dataDir)
	if err != nil {
		found.Seed = whyNot(err)
		return found, fmt.Errorf("the member shall begin with a snapshot: %w", err)
	}
	if restored {
		found = o.look(ctx)
	}
	return found, nil
}

// tell tells the manager and people what was found.
func (o *options) tell(command *cobra.Command, found facts.Facts) {
	if err := o.tellManager(found); err != nil {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "kok-etcd-agent: the manager is not told: %v\n", err)
	}
	_, _ = fmt.Fprintf(command.OutOrStdout(), "%s: %s\n", o.dataDir, found)
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
