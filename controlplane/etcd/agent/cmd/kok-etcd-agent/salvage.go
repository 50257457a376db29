package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/former"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
)

// salvaging are the flags of salvage.
type salvaging struct {
	options
	etcd string
}

func salvageCommand() *cobra.Command {
	s := &salvaging{}
	command := &cobra.Command{
		Use: "salvage", Short: "Make the data of a new cluster from those of a survivor", Args: cobra.NoArgs,
		Long: `Makes the data of a new cluster's only member from its own data of a former cluster, which prepare has put aside. All that is in
their log counts as committed. It works on a copy, with the member's own program of etcd.

It does nothing where the manager does not ask for it, and where there are data already. It fails until it is done: etcd
would begin without the data.`,
		RunE: func(command *cobra.Command, _ []string) error { return s.run(command) },
	}
	flags := command.Flags()
	flags.StringVar(&s.seeding.dir, "config-dir", backup.ConfigDirectory, "Folder of the manager's Secret.")
	flags.StringVar(&s.seeding.member, "member", "", "Name of the member, as in its configuration.")
	flags.StringVar(&s.dataDir, "data-dir", "", "etcd's data directory, as in its configuration.")
	flags.StringVar(&s.etcd, "etcd", "etcd", "Program of etcd, of the version of the member.")
	flags.StringVar(&s.terminationLog, "termination-log", "/dev/termination-log", "File of kubelet that the facts go to, as JSON.")
	flags.DurationVar(&s.seeding.timeout, "timeout", 30*time.Minute, "How long this may take.")
	flags.DurationVar(&s.timeout, "look-timeout", 2*time.Minute, "How long looking at data may take.")
	required(command, "member", "data-dir")
	return command
}

// run salvages, where there is something to do, and tells the manager.
func (s *salvaging) run(command *cobra.Command) error {
	there, err := former.HasMember(s.dataDir)
	if there {
		return nil
	}
	i := s.seeding.instruction()
	err = errors.Join(err, i.formerErr, i.seedErr)
	if err == nil && (!i.begins || !i.seed.Survivor) {
		return nil
	}
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, s.seeding.timeout)
	defer cancel()
	if err == nil {
		err = s.salvage(ctx, i)
	}
	found := s.look(command.Context())
	if err != nil {
		found.Seed = whyNot(err)
	}
	s.tell(command, found)
	return err
}

// salvage makes the data from those that were put aside last.
func (s *salvaging) salvage(ctx context.Context, i instruction) error {
	survivor, err := i.survivor(s.dataDir)
	if err != nil {
		return err
	}
	looked := options{dataDir: survivor.Path, timeout: s.timeout}
	if found := looked.look(ctx); found.State == facts.Unreadable || rebuild.Padded(found.ClusterID) != survivor.Name {
		return fmt.Errorf("the data in %s are not those of a member that was well: name another survivor, or a snapshot: %s", survivor.Path, found)
	}
	etcd, err := exec.LookPath(s.etcd)
	if err != nil {
		return fmt.Errorf("--etcd: %w", err)
	}
	program, err := snapshot.ThisProgram(restoreHere)
	if err != nil {
		return err
	}
	_, err = snapshot.Survivor{DataDir: survivor.Path, Etcd: etcd, Program: program}.Salvage(ctx, snapshot.Target{
		DataDir: s.dataDir, Name: i.seed.Member, PeerURL: i.seed.PeerURL, Token: i.seed.Restore, Highest: i.seed.HighestRevision(),
	})
	return err
}

// survivor are the data of the former cluster that this member was of last.
func (i instruction) survivor(dataDir string) (former.Aside, error) {
	newest, found, err := former.Newest(dataDir)
	switch {
	case err != nil:
		return former.Aside{}, err
	case !found:
		return former.Aside{}, errors.New("there are no data to salvage: this member has none, and none were put aside. Name another survivor, or a snapshot")
	case !i.isFormer(newest.Name):
		return former.Aside{}, fmt.Errorf("the data that were put aside last, in %s, are not of a cluster that can be salvaged: name another survivor, or a snapshot", newest.Path)
	}
	return newest, nil
}
