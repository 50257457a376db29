package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/store"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
)

const restoreLong = `Prepare a new cluster whose data etcd begins with a snapshot.

It reads the former cluster's keys from the store, decrypts them with the secret key of a person, checks by them that the
snapshot is genuine and verified, and writes what the new control plane begins with: Secrets with the keys that the snapshot
was taken with, and a KOKEtcdSnapshot. Then create the Cluster and its KOKControlPlane with the lines that are printed. If the encryption key was
rotated since, they have the new control plane encrypt everything by another key. Nothing is overwritten.

  --slot SLOT      a snapshot by its name in the store
  --latest         the newest one that is verified and not in the future
  --dry-run        write nothing; without --slot and --latest show the snapshots that the store has

The store is a bucket (--s3-...), or a PersistentVolumeClaim (--claim), whose files this machine does not see: give the newest
file keys-*.age of it by --keys-file, and --slot.`

const restoreExample = `  # What the store has
  kok etcd restore blue --identity-file key.txt --dry-run \
    --s3-endpoint https://s3.example.com --s3-bucket backups --s3-prefix team/blue --s3-credentials-secret s3

  # The newest one
  kok etcd restore blue --identity-file key.txt --latest \
    --s3-endpoint https://s3.example.com --s3-bucket backups --s3-prefix team/blue --s3-credentials-secret s3`

// restoreFlags are those of etcd restore.
type restoreFlags struct {
	identityFile, keysFile string
	slot                   string
	latest, dryRun         bool
	s3                     controlplanev1.S3StoreSpec
	claim                  string
}

// Flags that messages name.
const (
	flagIdentity = "identity-file"
	flagKeys     = "keys-file"
	flagSlot     = "slot"
	flagLatest   = "latest"
	flagClaim    = "claim"

	flagEndpoint    = "s3-endpoint"
	flagBucket      = "s3-bucket"
	flagPrefix      = "s3-prefix"
	flagRegion      = "s3-region"
	flagCredentials = "s3-credentials-secret"
	flagCA          = "s3-ca-secret"
)

func (f *restoreFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.identityFile, flagIdentity, "", "File with your secret key of age, which is that of one of spec.etcd.backup.recipients.")
	flags.StringVar(&f.keysFile, flagKeys, "", "File keys-*.age of the store; by default it is read from the bucket.")
	flags.StringVar(&f.slot, flagSlot, "", "Name of the snapshot in its store, as 20260304T050000Z.")
	flags.BoolVar(&f.latest, flagLatest, false, "Take the newest snapshot that is verified.")
	flags.BoolVar(&f.dryRun, "dry-run", false, "Check everything, and show what would be written.")
	flags.StringVar(&f.s3.Endpoint, flagEndpoint, "", "Address of the S3 server: https://host:port. This machine and members of etcd have to reach it.")
	flags.StringVar(&f.s3.Bucket, flagBucket, "", "Name of the bucket.")
	flags.StringVar(&f.s3.Prefix, flagPrefix, "", "What names of objects begin with; by default NAMESPACE/CLUSTER. It is that of the former cluster.")
	flags.StringVar(&f.s3.Region, flagRegion, "", "Region of the bucket, for servers that have some.")
	flags.StringVar(&f.s3.CredentialsRef.Name, flagCredentials, "", "Secret in the namespace with the keys accessKeyID and secretAccessKey.")
	flags.StringVar(&f.s3.CARef.Name, flagCA, "", "Secret in the namespace whose key ca.crt vouches for the server; by default authorities that the machine trusts do.")
	flags.StringVar(&f.claim, flagClaim, "", "PersistentVolumeClaim with the snapshots, in the namespace in the host cluster.")
	if err := command.MarkFlagRequired(flagIdentity); err != nil {
		panic(err) // It is a flag of this command.
	}
	command.MarkFlagsMutuallyExclusive(flagSlot, flagLatest)
	command.MarkFlagsMutuallyExclusive(flagClaim, flagEndpoint)
	command.MarkFlagsMutuallyExclusive(flagClaim, flagLatest)
	command.MarkFlagsOneRequired(flagClaim, flagEndpoint)
	command.MarkFlagsRequiredTogether(flagEndpoint, flagBucket, flagCredentials)
}

// check refuses flags that cannot work, and fills in defaults.
func (f *restoreFlags) check(key client.ObjectKey) error {
	switch {
	case f.slot == "" && !f.latest && !f.dryRun:
		return fmt.Errorf("name a snapshot by --%s, or take the newest verified one by --%s; --dry-run without them shows those that the store has", flagSlot, flagLatest)
	case f.claim != "" && f.keysFile == "":
		return fmt.Errorf("--%s needs --%s: copy the newest file keys-*.age of the volume to this machine", flagClaim, flagKeys)
	case f.claim != "" && f.slot == "":
		return fmt.Errorf("--%s needs --%s: the names of the files on the volume begin with it", flagClaim, flagSlot)
	}
	if f.slot != "" {
		if _, err := archive.ParseSlot(f.slot); err != nil {
			return fmt.Errorf("--%s %.40q is no name of a snapshot: it is a time such as 20260304T050000Z, as --dry-run without it shows", flagSlot, f.slot)
		}
	}
	if f.claim == "" && f.s3.Prefix == "" {
		f.s3.Prefix = key.Namespace + "/" + key.Name
	}
	return nil
}

// store is the store as a KOKEtcdSnapshot names it.
func (f *restoreFlags) store() controlplanev1.EtcdSnapshotStore {
	if f.claim != "" {
		return controlplanev1.EtcdSnapshotStore{ClaimName: f.claim}
	}
	return controlplanev1.EtcdSnapshotStore{S3: &f.s3}
}

func newRestore(cluster *access.Cluster) *cobra.Command {
	r := &restorer{cluster: cluster}
	command := &cobra.Command{
		Use: "restore CLUSTER", Short: "Prepare a new cluster whose etcd begins with a snapshot",
		Long: restoreLong, Example: restoreExample, Args: cobra.ExactArgs(1),
		ValidArgsFunction: cluster.CompleteOne(&clusterv1.ClusterList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(r.run(command.Context(), args[0]))
		},
	}
	r.flags.add(command)
	return command
}

// restorer is one run of the command.
type restorer struct {
	cluster *access.Cluster
	flags   restoreFlags

	client client.Client
	// key is that of the new Cluster.
	key client.ObjectKey
}

// plan is what is written.
type plan struct {
	slot string
	// of says what the snapshot is of; empty where its manifest was not read.
	of string
	// secrets and snapshot are only those that are not there yet.
	secrets  []*corev1.Secret
	snapshot *controlplanev1.KOKEtcdSnapshot
	// name is that of the KOKEtcdSnapshot, fingerprint that of the cluster CA.
	name, fingerprint string
	// former is true when the encryption key was rotated since the snapshot was taken. replaced are all kinds of keys that come back
	// with the snapshot, although others took their place since.
	former   bool
	replaced []string
}

func (r *restorer) run(ctx context.Context, name string) error {
	c, namespace, err := r.cluster.Connect()
	if err != nil {
		return err
	}
	r.client, r.key = c, client.ObjectKey{Namespace: namespace, Name: name}
	if err := r.flags.check(r.key); err != nil {
		return err
	}
	identities, err := readIdentities(r.flags.identityFile)
	if err != nil {
		return err
	}
	if err := r.refuseControlPlane(ctx); err != nil {
		return err
	}
	var objects store.Store
	if r.flags.claim == "" {
		opened, end, err := r.openBucket(ctx)
		if err != nil {
			return err
		}
		defer end()
		objects = opened
	}
	return r.restore(ctx, objects, identities)
}

func (r *restorer) restore(ctx context.Context, objects store.Store, identities []age.Identity) error {
	all, err := r.openKeys(ctx, objects, identities)
	if err != nil {
		return err
	}
	if r.flags.slot == "" && !r.flags.latest {
		return r.show(ctx, objects, all)
	}
	p, keys := &plan{slot: r.flags.slot}, all[0]
	if objects != nil {
		entry, of, err := r.choose(ctx, objects, all)
		if err != nil {
			return err
		}
		m := entry.Manifest
		keys = of
		if p.former, err = rotatedSince(ctx, objects, all, entry.Slot, keys); err != nil {
			return err
		}
		p.replaced = keys.material.Replaced(all[0].material)
		p.slot = archive.SlotName(entry.Slot)
		if isInFuture(p.slot, time.Now()) {
			r.cluster.Say("The snapshot %s is taken, although %s", p.slot, inFutureMessage)
		}
		p.of = fmt.Sprintf(" of %s/%s, taken %s at revision %d", m.Cluster.Namespace, m.Cluster.Name, m.Taken.UTC().Format(time.RFC3339), m.Revision)
	} else {
		r.cluster.Say("The snapshot itself is on a volume that this machine does not see: the member of etcd that restores it checks it")
	}
	p.fingerprint = keys.fingerprint()
	if err := r.compare(ctx, p, keys); err != nil {
		return err
	}
	if !r.flags.dryRun {
		if err := r.write(ctx, p); err != nil {
			return err
		}
	}
	return r.tell(p)
}

// show prints the snapshots of the store.
func (r *restorer) show(ctx context.Context, objects store.Store, all []*opened) error {
	found, _, err := entries(ctx, objects, all)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return r.noSnapshot()
	}
	rows := make([]row, 0, len(found))
	for _, e := range found {
		rows = append(rows, rowOfEntry(e))
	}
	now := time.Now()
	if err := printRows(r.cluster.Out, futureLast(rows, now), now); err != nil {
		return err
	}
	r.cluster.Say("Choose one by --%s, or the newest verified one by --%s", flagSlot, flagLatest)
	return nil
}

// tell prints what was done, or would be, and what a person does next.
func (r *restorer) tell(p *plan) error {
	done := "is created"
	if r.flags.dryRun {
		done = "would be created"
	}
	for _, secret := range p.secrets {
		r.cluster.Say("Secret %s %s", client.ObjectKeyFromObject(secret), done)
	}
	if p.snapshot != nil {
		r.cluster.Say("KOKEtcdSnapshot %s %s", client.ObjectKeyFromObject(p.snapshot), done)
	}
	if len(p.secrets) == 0 && p.snapshot == nil {
		r.cluster.Say("Everything is there already")
	}
	if r.flags.dryRun {
		r.cluster.Say("Nothing was written: leave out --dry-run to write it")
	}
	_, err := fmt.Fprintf(r.cluster.Out, `# The snapshot %s%s.
# Its cluster CA has the SHA-256 fingerprint
#   %s
# Write this into the new KOKControlPlane of Cluster %s:
spec:
  etcd:
    restore:
      snapshot: %s
%s# %s
# Create both, and see how it comes up:
#   kubectl apply --namespace %s --filename %s.yaml
#   %s status %s --namespace %s
`, p.slot, p.of, p.fingerprint, r.key.Name, p.name, p.rotation(time.Now()), r.flags.apart(), r.key.Namespace, r.key.Name, r.cluster.Program, r.key.Name, r.key.Namespace)
	return err
}

// apart tells a person to give the new control plane another place for its snapshots. Members of the former one may still run, and write
// to the old place.
func (f *restoreFlags) apart() string {
	if f.claim != "" {
		return fmt.Sprintf("Its backup, if it has one, needs another spec.etcd.backup.store.claimName than %s.", f.claim)
	}
	return fmt.Sprintf("Its backup, if it has one, needs another spec.etcd.backup.store.s3.prefix than %s.", f.s3.Prefix)
}

// rotation is the part of the spec by which the new control plane replaces a former encryption key by itself: it makes another one, writes all
// encrypted objects again and drops the former one, once it works. Nobody else can need that key. It is empty if the key was not rotated.
// A comment tells of the other keys that come back: whether somebody needs these is for a person to know.
func (p *plan) rotation(now time.Time) string {
	if !p.former {
		return ""
	}
	at := now.UTC().Format(time.RFC3339)
	return fmt.Sprintf(`  # Of these kinds former keys come back with the snapshot: %s.
  # If one of them has leaked, rotate it when the workers have joined: docs/keys.md.
  # The encryption key was rotated since this snapshot was taken: all is encrypted anew by another key, once the control plane works.
  keyRotation:
    kinds: [%s]
    prepareAfter: %q
    completeAfter: %q
`, strings.Join(p.replaced, ", "), controlplanev1.EncryptionKeyKind, at, at)
}
