package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/mounted"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// backupCommands are those about snapshots.
func backupCommands() []*cobra.Command {
	return []*cobra.Command{serveCommand(), snapshotCommand(), verifyCommand(), listCommand(), restoreCommand(), salvageCommand(), {
		Use: restoreHere, Short: "Restore in this process; verify and restore run it", Args: cobra.NoArgs, Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return snapshot.Main(command.InOrStdin(), command.OutOrStdout())
		},
	}}
}

func required(command *cobra.Command, names ...string) {
	for _, name := range names {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err) // The flag is there.
		}
	}
}

func snapshotCommand() *cobra.Command {
	var b storing
	var endpoint, cluster, recipientsFile, slot string
	var tls snapshot.TLSFiles
	var o snapshot.Options
	var every time.Duration
	var withoutQuorum bool
	command := &cobra.Command{
		Use: "snapshot", Short: "Take a snapshot of a live member into a store", Args: cobra.NoArgs,
		Long: `Takes a snapshot of a live member of etcd, compresses and encrypts it, and puts it into a store with a manifest beside it.
There is one snapshot of each slot of time: if the slot has one already, nothing is done.`,
		RunE: func(command *cobra.Command, _ []string) error {
			var found bool
			if o.Cluster.Namespace, o.Cluster.Name, found = strings.Cut(cluster, "/"); !found {
				return fmt.Errorf("--cluster must be namespace/name, and is %.200q", cluster)
			}
			var err error
			if o.Slot, err = slotOf(slot, every); err != nil {
				return err
			}
			file, err := mounted.Read(recipientsFile)
			if err != nil {
				return fmt.Errorf("--recipients-file: %w", err)
			}
			if o.Recipients, err = archive.ParseRecipients(lines(string(file))); err != nil {
				return fmt.Errorf("--recipients-file: %w", err)
			}
			config, err := tls.Config()
			if err != nil {
				return err
			}
			member, err := snapshot.Dial(endpoint, config)
			if err != nil {
				return err
			}
			defer member.Close() //nolint:errcheck // It was only read.
			member.WithoutQuorum = withoutQuorum
			return b.run(command, func(ctx context.Context, s store.Store, key archive.Key) error {
				o.Key = key
				m, err := snapshot.Take(ctx, member, s, o)
				if errors.Is(err, store.ErrExists) {
					return say(command, "snapshot %s is there already\n", archive.SlotName(o.Slot))
				}
				if err != nil {
					return err
				}
				return say(command, "snapshot %s: revision %d, %d bytes, %d of them stored; verify it now\n", archive.SlotName(m.Slot), m.Revision, m.Plain.Bytes, m.Encrypted.Bytes)
			})
		},
	}
	b.flags(command)
	flags := command.Flags()
	flags.StringVar(&endpoint, "endpoint", "", "Address of the member: https://127.0.0.1:2379.")
	flags.StringVar(&tls.CA, "cacert", "", "File with etcd's CA.")
	flags.StringVar(&tls.Certificate, "cert", "", "File with the certificate of a client of etcd.")
	flags.StringVar(&tls.Key, "key", "", "File with the key of that certificate.")
	flags.StringVar(&cluster, "cluster", "", "namespace/name of the tenant.")
	flags.StringVar(&o.Cluster.UID, "tenant-uid", "", "UID of the tenant's namespace kube-system.")
	flags.StringVar(&o.Member, "member", "", "Name of the member.")
	flags.StringVar(&o.EncryptionKeyID, "encryption-key-id", "", "Name of the key by which the tenant's API servers encrypt what they store.")
	flags.StringVar(&recipientsFile, "recipients-file", "", "File with the public keys of age that can open the snapshot, one a line: the tenant's and those of people.")
	flags.StringVar(&slot, "slot", "", "Time that the snapshot is for, as 2006-01-02T15:04:05Z; now unless it is given.")
	flags.DurationVar(&every, "every", time.Hour, "How long a slot is; its beginning names the snapshot.")
	flags.BoolVar(&withoutQuorum, "without-quorum", false, "Also take one of a member that knows no leader; what others acknowledged may be missing.")
	required(command, "endpoint", "cluster", "recipients-file")
	return command
}

// slotOf is the slot of a time, or of now.
func slotOf(text string, every time.Duration) (time.Time, error) {
	if every < time.Second {
		return time.Time{}, errors.New("--every must be a second at least")
	}
	at := time.Now()
	if text != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return time.Time{}, fmt.Errorf("--slot must be of the form 2006-01-02T15:04:05Z, and is %.80q", text)
		}
	}
	return archive.SlotOf(at, every), nil
}

// lines are those of a file of age, without comments.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

func say(command *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(command.OutOrStdout(), format, args...)
	return err
}

func verifyCommand() *cobra.Command {
	var r reading
	var scratch string
	command := &cobra.Command{
		Use: "verify [SNAPSHOT]", Short: "Restore a snapshot as a trial, and record that it is what its member had", Args: cobra.MaximumNArgs(1),
		Long: `Downloads a snapshot, the newest one unless another is named, decrypts it, restores it into a scratch folder and starts etcd
there, which nobody else reaches. If its revision and its hash are those of the member, the store records that it is verified.`,
		RunE: func(command *cobra.Command, args []string) error {
			return r.with(command, strings.Join(args, ""), func(ctx context.Context, reader snapshot.Reader, e snapshot.Entry, etcd string) error {
				v, err := reader.Verify(ctx, e, etcd, scratch)
				if err != nil {
					return err
				}
				return say(command, "snapshot %s is verified: etcd %s starts from it, at revision %d\n", archive.SlotName(e.Slot), v.EtcdVersion, v.Revision)
			})
		},
	}
	r.flags(command)
	command.Flags().StringVar(&scratch, "scratch", "", "Folder with room for twice the size of the database, and some more.")
	required(command, "scratch")
	return command
}

func restoreCommand() *cobra.Command {
	var r reading
	var t snapshot.Target
	command := &cobra.Command{
		Use: "restore SNAPSHOT", Short: "Make the data of a new cluster's only member from a snapshot", Args: cobra.ExactArgs(1),
		Long: `Restores a verified snapshot into a data directory without data, as the only member of a new cluster. Revisions go on far above
those of the old cluster, so that nobody takes old objects for new ones. Others join that member later.`,
		RunE: func(command *cobra.Command, args []string) error {
			return r.with(command, args[0], func(ctx context.Context, reader snapshot.Reader, e snapshot.Entry, etcd string) error {
				version, err := snapshot.VersionOf(ctx, etcd)
				if err != nil {
					return err
				}
				t.Expected = archive.Expected{UID: r.uid, EtcdVersion: version}
				restored, err := reader.Restore(ctx, e, t)
				if err != nil {
					return err
				}
				return say(command, "snapshot %s of revision %d is restored in %s: etcd goes on from revision %d\n", archive.SlotName(e.Slot), restored.Snapshot, t.DataDir, restored.Revision)
			})
		},
	}
	r.flags(command)
	flags := command.Flags()
	flags.StringVar(&t.DataDir, "data-dir", "", "etcd's data directory, as in its configuration; it must have no data.")
	flags.StringVar(&t.Name, "name", "", "Name of the member, as in its configuration.")
	flags.StringVar(&t.PeerURL, "peer-url", "", "Peer URL of the member, as in its configuration.")
	flags.StringVar(&t.Token, "token", "", "Token of the new cluster, which no cluster had before.")
	flags.Int64Var(&t.Highest, "highest-revision", 0, "Highest revision that the old cluster ever reported, where it is known.")
	flags.BoolVar(&t.NotVerified, "not-verified", false, "Also take a snapshot that was never verified.")
	required(command, "data-dir", "name", "peer-url", "token")
	return command
}

func listCommand() *cobra.Command {
	var b storing
	var asJSON bool
	command := &cobra.Command{
		Use: "list", Short: "List the snapshots of a store, the newest first", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return b.run(command, func(ctx context.Context, s store.Store, key archive.Key) error {
				all, err := snapshot.List(ctx, s, key)
				if err != nil {
					return err
				}
				if asJSON {
					return listJSON(command.OutOrStdout(), all)
				}
				return listTable(command.OutOrStdout(), all)
			})
		},
	}
	b.flags(command)
	command.Flags().BoolVar(&asJSON, "json", false, "Write JSON.")
	return command
}

// listed is a snapshot in JSON.
type listed struct {
	Name         string                `json:"name"`
	Manifest     *archive.Manifest     `json:"manifest,omitempty"`
	Verification *archive.Verification `json:"verification,omitempty"`
	Reason       archive.Reason        `json:"reason,omitempty"`
	Message      string                `json:"message,omitempty"`
}

func listJSON(out io.Writer, all []snapshot.Entry) error {
	list := make([]listed, 0, len(all))
	for _, e := range all {
		l := listed{Name: archive.SlotName(e.Slot), Verification: e.Verification}
		if e.Err == nil {
			l.Manifest = &e.Manifest
		} else {
			l.Reason, l.Message = archive.ReasonOf(e.Err), e.Err.Error()
		}
		list = append(list, l)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(list)
}

func listTable(out io.Writer, all []snapshot.Entry) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(w, "SNAPSHOT\tTAKEN\tETCD\tREVISION\tBYTES\tVERIFIED")
	for _, e := range all {
		m, verified := e.Manifest, "no"
		switch {
		case e.Err != nil:
			_, lineErr := fmt.Fprintf(w, "%s\t%s\n", archive.SlotName(e.Slot), e.Err)
			err = errors.Join(err, lineErr)
			continue
		case e.Verified():
			verified = e.Verification.Verified.Format(time.RFC3339)
		}
		_, lineErr := fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", archive.SlotName(e.Slot), m.Taken.Format(time.RFC3339), m.EtcdVersion, m.Revision, m.Encrypted.Bytes, verified)
		err = errors.Join(err, lineErr)
	}
	return errors.Join(err, w.Flush())
}
