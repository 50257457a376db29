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

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/mounted"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
)

// storing are the flags of all commands that read or write snapshots. Every secret is in a file.
type storing struct {
	dir, kind string
	s3        store.S3Config
	keyFile   string
	timeout   time.Duration
}

func (b *storing) flags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&b.dir, "store-dir", "", "Folder of the snapshots, where they are on a volume.")
	flags.StringVar(&b.kind, "store-kind", store.FieldClaimName, "Which volume that is, for messages: claimName or perMember.")
	flags.StringVar(&b.s3.Endpoint, "s3-endpoint", "", "Address of the S3 server, where they are in a bucket: https://host:port.")
	flags.StringVar(&b.s3.Bucket, "s3-bucket", "", "Name of the bucket.")
	flags.StringVar(&b.s3.Prefix, "s3-prefix", "", "What the names of all objects of this tenant begin with.")
	flags.StringVar(&b.s3.Region, "s3-region", "", "Region of the bucket.")
	flags.StringVar(&b.s3.Credentials, "s3-credentials", "", "Folder with the files accessKeyID and secretAccessKey.")
	flags.StringVar(&b.s3.CA, "s3-ca", "", "File with the CA of the S3 server, where the machine does not trust it.")
	flags.StringVar(&b.keyFile, "hmac-key-file", "", "File with the key by which this tenant signs manifests.")
	flags.DurationVar(&b.timeout, "timeout", time.Hour, "How long this may take.")
	if err := command.MarkFlagRequired("hmac-key-file"); err != nil {
		panic(err) // The flag is there.
	}
}

// run carries out a command with its store and its key, until it has done or is told to end.
func (b *storing) run(command *cobra.Command, do func(context.Context, store.Store, archive.Key) error) error {
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	key, err := mounted.Key(b.keyFile)
	if err != nil {
		return fmt.Errorf("--hmac-key-file: %w", err)
	}
	switch {
	case (b.dir == "") == (b.s3.Endpoint == ""):
		return errors.New("name one store: --store-dir, or --s3-endpoint with its bucket")
	case b.kind != store.FieldClaimName && b.kind != store.FieldPerMember:
		return errors.New("--store-kind must be claimName or perMember")
	}
	s, err := mounted.Place{Directory: b.dir, Field: b.kind, S3: b.s3}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	return do(ctx, s, key)
}

// restoreHere is the command of the child.
const restoreHere = "restore-here"

// reading are the flags of commands that read what is in a snapshot.
type reading struct {
	storing
	identityFiles []string
	uid, etcd     string
}

func (r *reading) flags(command *cobra.Command) {
	r.storing.flags(command)
	flags := command.Flags()
	flags.StringArrayVar(&r.identityFiles, "identity-file", nil, "File with a secret key of age that opens snapshots; may be given more than once.")
	flags.StringVar(&r.uid, "tenant-uid", "", "UID of the tenant's namespace kube-system; a snapshot of another one is refused. Empty takes all.")
	flags.StringVar(&r.etcd, "etcd", "etcd", "Program of etcd that shall start from the snapshot; a snapshot of a newer one is refused.")
	if err := command.MarkFlagRequired("identity-file"); err != nil {
		panic(err) // The flag is there.
	}
}

// with gives what it takes to read a snapshot, the snapshot, and the program of etcd.
func (r *reading) with(command *cobra.Command, name string, do func(context.Context, snapshot.Reader, snapshot.Entry, string) error) error {
	var opened []age.Identity
	for _, path := range r.identityFiles {
		found, err := mounted.Identities(path)
		if err != nil {
			return fmt.Errorf("--identity-file: %w", err)
		}
		opened = append(opened, found...)
	}
	etcd, err := exec.LookPath(r.etcd)
	if err != nil {
		return fmt.Errorf("--etcd: %w", err)
	}
	again, err := snapshot.ThisProgram(restoreHere)
	if err != nil {
		return err
	}
	return r.run(command, func(ctx context.Context, s store.Store, key archive.Key) error {
		e, err := named(ctx, s, key, name)
		if err != nil {
			return err
		}
		if e.Err == nil {
			if err := e.Manifest.Meets(archive.Expected{UID: r.uid}); err != nil {
				return err
			}
		}
		return do(ctx, snapshot.Reader{Store: s, Key: key, Identities: opened, Program: again}, e, etcd)
	})
}

// named is the snapshot of a name, or the newest one for none.
func named(ctx context.Context, s store.Store, key archive.Key, name string) (snapshot.Entry, error) {
	if name == "" {
		all, err := snapshot.List(ctx, s, key)
		if err == nil && len(all) == 0 {
			err = errors.New("there is no snapshot in this store")
		}
		if err != nil {
			return snapshot.Entry{}, err
		}
		return all[0], nil
	}
	slot, err := archive.ParseSlot(name)
	if err != nil {
		return snapshot.Entry{}, fmt.Errorf("%.80q is no name of a snapshot: kok-etcd-agent list shows them", name)
	}
	e, err := snapshot.Find(ctx, s, key, slot)
	if errors.Is(err, store.ErrNotFound) {
		return snapshot.Entry{}, fmt.Errorf("there is no snapshot %s in this store: kok-etcd-agent list shows those that there are", name)
	}
	return e, err
}
