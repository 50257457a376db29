package backups

import (
	"context"
	"maps"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// uidKind is the kind of the probe that asks a tenant who it is.
const uidKind = "tenant-uid"

// NoAgent is what a person does where members cannot have the agent.
const NoAgent = "the manager's flag --etcd-agent-image names no image of kok-etcd-agent, without which members neither take nor restore snapshots: set it"

// KeyFiles are the files with the keys of a tenant's snapshots.
func KeyFiles(keys *pki.KeyMaterial) (map[string][]byte, error) {
	hmac, identity, _, err := keys.SnapshotKeys()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{backup.KeyFile: hmac, backup.IdentityFile: []byte(identity.String() + "\n")}, nil
}

// Told is what members are told of the backup, and what keeps them from being told all of it.
type Told struct {
	Files map[string][]byte
	// Problem says what is missing, for people; empty for nothing.
	Problem string
}

// Tell decides what members are told of the backup. before is what they were told. They are told nothing before the tenant has a
// UID, by which its snapshots are known.
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

// configOf is the configuration that members were told before; empty where somebody edited it, and it is written anew.
func configOf(files map[string][]byte) backup.Config {
	config, err := backup.DecodeConfig(files[backup.ConfigFile])
	if err != nil {
		return backup.Config{}
	}
	return config
}

// describedBackup are the files that describe the backup of a tenant with a UID. told and sealed are the configuration and the
// sealed keys of before. Sealing gives other bytes each time, so keys are sealed again only when they or their recipients change.
func describedBackup(spec *controlplanev1.EtcdBackupSpec, of *Facts, uid string, told backup.Config, sealed []byte) (files map[string][]byte, problem string, err error) {
	_, identity, keyID, err := of.Keys.SnapshotKeys()
	if err != nil {
		return nil, "", err
	}
	bundle, err := pki.EncodeKeys(of.Keys)
	if err != nil {
		return nil, "", err
	}
	tenant := Tenant{
		Cluster: of.Cluster, UID: uid, Recipient: identity.Recipient().String(), EncryptionKeyID: keyID,
		KeysID: pki.KeysID(bundle, spec.Recipients),
	}
	if told.KeysID != tenant.KeysID || len(sealed) == 0 {
		if sealed, err = pki.SealKeys(bundle, spec.Recipients); err != nil {
			return nil, "spec.etcd.backup.recipients: " + err.Error(), nil //nolint:nilerr // A person has to mend it.
		}
	}
	config, err := backup.Encode(Config(spec, tenant))
	return map[string][]byte{backup.KeysFile: sealed, backup.ConfigFile: config}, "", err
}

// tenantUID is the UID of the tenant's namespace kube-system: the one that was known, else what a probe says; empty before.
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

// Beside are all files of the Secret. first are those that a member begins with: its snapshot may be in another store, so
// the credentials among them count. While a problem keeps members from being told anew, what they were told before is better than
// nothing. A member that begins with a snapshot needs the new files all the same.
func (t Told) Beside(first, before map[string][]byte, seeded bool) map[string][]byte {
	if t.Problem != "" && !seeded && before != nil {
		return WithoutSeed(before)
	}
	files := maps.Clone(t.Files)
	if files == nil {
		files = map[string][]byte{}
	}
	maps.Copy(files, first)
	return files
}

// WithoutSeed are the files without the one that says which snapshot a member begins with.
func WithoutSeed(files map[string][]byte) map[string][]byte {
	kept := maps.Clone(files)
	delete(kept, backup.SeedFile)
	return kept
}
