package backups

import (
	"context"
	"maps"
	"slices"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// uidKind is the kind of the probe that asks a tenant who it is.
const uidKind = "tenant-uid"

// NoAgent tells a person what to do when members cannot have the agent.
const NoAgent = "the manager's flag --etcd-agent-image names no image of kok-etcd-agent, without which members neither take nor restore snapshots: set it"

// KeyFiles are the files with the keys of a tenant's snapshots.
func KeyFiles(keys *pki.KeyMaterial) (map[string][]byte, error) {
	hmac, identity, _, err := keys.SnapshotKeys()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{backup.KeyFile: hmac, backup.IdentityFile: []byte(identity.String() + "\n")}, nil
}

// Told is what the manager tells members about the backup, and why it cannot tell them all.
type Told struct {
	Files map[string][]byte
	// Problem tells people what is missing; empty when nothing is.
	Problem string
}

// Tell decides what the manager tells members about the backup. before is what it told them last. It gives them no configuration before it
// knows the UID of the tenant, because the UID identifies the tenant's snapshots.
func (k *Keeper) Tell(ctx context.Context, of *Facts, before map[string][]byte) Told {
	files, problem, err := k.backupFiles(ctx, of, before)
	if err != nil {
		problem = errortext.Steady(err)
	}
	return Told{files, problem}
}

func (k *Keeper) backupFiles(ctx context.Context, of *Facts, before map[string][]byte) (files map[string][]byte, problem string, err error) {
	spec := of.ControlPlane.Spec.Etcd.Backup
	files, problem, err = k.Credentials(ctx, of.ControlPlane.Namespace, spec.Store, "spec.etcd.backup.store")
	if problem != "" || err != nil {
		return nil, problem, err
	}
	told := configOf(before)
	uid := k.tenantUID(of, told.Cluster.UID)
	if uid == "" {
		return files, "the tenant has not told its UID yet, by which its snapshots are known", nil
	}
	described, problem, err := describedBackup(spec, of, uid, told, before[backup.KeysFile])
	if problem != "" || err != nil {
		return nil, problem, err
	}
	maps.Copy(files, described)
	return files, "", nil
}

// configOf is the configuration that members were told last. It is empty if somebody broke it by an edit; then the manager writes it anew.
func configOf(files map[string][]byte) backup.Config {
	config, err := backup.DecodeConfig(files[backup.ConfigFile])
	if err != nil {
		return backup.Config{}
	}
	return config
}

// describedBackup returns the files that describe the backup of a tenant whose UID is known. told and sealed are the configuration and the
// sealed keys that members were told last. Sealing the same keys again gives other bytes, so describedBackup seals them again only when the
// keys or their recipients change.
func describedBackup(spec *controlplanev1.EtcdBackupSpec, of *Facts, uid string, told backup.Config, sealed []byte) (files map[string][]byte, problem string, err error) {
	_, identity, keyID, err := of.Keys.SnapshotKeys()
	if err != nil {
		return nil, "", err
	}
	bundle, err := pki.EncodeKeys(of.Keys)
	if err != nil {
		return nil, "", err
	}
	tenant := tenantFacts{
		Cluster: of.Cluster, UID: uid, Recipient: identity.Recipient().String(), EncryptionKeyID: keyID,
		KeysID: pki.KeysID(bundle, spec.Recipients),
	}
	if told.KeysID != tenant.KeysID || len(sealed) == 0 {
		if sealed, err = pki.SealKeys(bundle, spec.Recipients); err != nil {
			return nil, "spec.etcd.backup.recipients: " + err.Error(), nil //nolint:nilerr // A person has to mend it.
		}
	}
	config, err := backup.Encode(configFor(spec, tenant))
	return map[string][]byte{backup.KeysFile: sealed, backup.ConfigFile: config}, "", err
}

// tenantUID is the UID of the tenant's namespace kube-system: the known one, or else the one that the probe found. It is empty until the
// probe has found it.
func (k *Keeper) tenantUID(of *Facts, known string) string {
	key := of.probe(uidKind)
	if known != "" {
		k.Prober.Withdraw(key)
		return known
	}
	if of.UID == nil {
		return ""
	}
	result, _ := k.Prober.Probe(key, probe.Probe{Identity: of.UID.Identity, Timeout: timeout, Do: of.UID.Do})
	uid, _ := result.Value.(string)
	return uid
}

// Beside returns all files of the Secret. first are the files that the first member begins with. They replace those of the backup. A
// snapshot may be in another S3 store than the backup: then no credentials of the backup stay beside those of the snapshot. While there
// is a problem, members keep the files that they were told before, but a member that begins with a snapshot gets the new ones.
func (t Told) Beside(first, before map[string][]byte, seeded bool) map[string][]byte {
	if t.Problem != "" && !seeded && before != nil {
		return WithoutSeed(before)
	}
	files := maps.Clone(t.Files)
	if files == nil {
		files = map[string][]byte{}
	}
	if _, other := first[backup.AccessKeyIDFile]; other {
		maps.DeleteFunc(files, func(name string, _ []byte) bool { return slices.Contains(backup.S3Files, name) })
	}
	maps.Copy(files, first)
	return files
}

// WithoutSeed returns the files without the one that names the snapshot that a member begins with.
func WithoutSeed(files map[string][]byte) map[string][]byte {
	kept := maps.Clone(files)
	delete(kept, backup.SeedFile)
	return kept
}
