package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// seeding are the flags about the snapshot that a member begins with.
type seeding struct {
	dir, member, storeDir string
	timeout               time.Duration
}

func (s *seeding) flags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&s.dir, "seed-dir", "", "Folder of the manager's Secret. Where its "+backup.SeedFile+" is for this member, and there are no data, that snapshot is restored. Data of clusters in its "+backup.FormerFile+" are put aside.")
	flags.StringVar(&s.member, "member", "", "Name of the member, as in its configuration.")
	flags.StringVar(&s.storeDir, "seed-store-dir", backup.StoreDirectory, "Folder of the snapshots, where they are on a volume.")
	flags.DurationVar(&s.timeout, "seed-timeout", 30*time.Minute, "How long the restore may take.")
	command.MarkFlagsRequiredTogether("seed-dir", "member")
}

// restore makes the data of this member from the snapshot that it begins with; false where it begins with none.
func (s *seeding) restore(ctx context.Context, i instruction, dataDir string) (bool, error) {
	if i.seedErr != nil || !i.begins || i.seed.Survivor {
		return false, i.seedErr
	}
	folder, seed := i.folder, i.seed
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	program, err := snapshot.ThisProgram(restoreHere)
	if err != nil {
		return false, err
	}
	opened, err := folder.Store(seed.Store, s.storeDir)
	if err != nil {
		return false, err
	}
	defer opened.Close()
	reader, err := folder.Reader(opened, program)
	if err != nil {
		return false, err
	}
	e, err := snapshot.Find(ctx, opened, reader.Key, seed.Slot)
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("there is no snapshot %s in the store: name one that kok-etcd-agent list shows: %w", archive.SlotName(seed.Slot), err)
	}
	if err != nil {
		return false, err
	}
	// The IDs of a cluster are made of its token: two restores of one snapshot must not be taken for one cluster. Of a restore in
	// place the manager has to know them beforehand.
	token := cmp.Or(seed.Restore, fmt.Sprintf("%s-%s-%s", s.member, archive.SlotName(seed.Slot), strings.ToLower(rand.Text())))
	_, err = reader.Restore(ctx, e, snapshot.Target{
		DataDir: dataDir, Name: seed.Member, PeerURL: seed.PeerURL, Token: token, Highest: seed.HighestRevision(),
		Expected: archive.Expected{UID: seed.TenantUID, EtcdVersion: seed.EtcdVersion},
	})
	return err == nil, err
}

// whyNot says why a snapshot is not restored, beginning with the reason where it is refused.
func whyNot(err error) string {
	reason := archive.ReasonOf(err)
	switch {
	case errors.Is(err, snapshot.ErrNotVerified):
		reason = cmp.Or(reason, facts.SeedNotVerified)
	case errors.Is(err, store.ErrNotFound):
		reason = cmp.Or(reason, facts.SeedNotFound)
	}
	text := err.Error()
	if reason == "" || strings.HasPrefix(text, string(reason)+": ") {
		return text
	}
	return string(reason) + ": " + text
}
