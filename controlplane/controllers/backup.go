package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
)

const (
	// backupProbeKind is the kind of the probe that asks members for their snapshots, uidProbeKind of the one that asks a
	// tenant who it is.
	backupProbeKind = "backup"
	uidProbeKind    = "tenant-uid"
	// backupTimeout bounds both.
	backupTimeout = 10 * time.Second
)

// noAgent is what a person does where members cannot have the agent.
const noAgent = "the manager's flag --etcd-agent-image names no image of kok-etcd-agent, without which members neither take nor restore snapshots: set it"

// ensureBackup keeps the Secret from which members of the data etcd learn how they are backed up, which snapshot a new one
// begins with, and whose data must not start again. A backup that cannot be is no reason to stop: the condition EtcdBackedUp
// says why. A snapshot that cannot be had is: etcd must not begin with nothing in its place.
func (r *Reconciler) ensureBackup(ctx context.Context, s *scope) flow.Result {
	of := s.backupSecret()
	spec, seeded := s.controlPlane.Spec.Etcd.Backup, etcdclusters.Seeded(s.controlPlane, names.EtcdData)
	if spec == nil && !seeded && !s.everRestored() {
		return flow.Failed(s.store.DeleteFiles(ctx, of))
	}
	if r.EtcdAgentImage == "" {
		if s.backup.Problem = noAgent; seeded {
			return flow.Waiting(noAgent)
		}
		return r.keepBackup(ctx, s)
	}
	present, err := s.store.ReadFiles(ctx, of)
	if err != nil {
		return flow.Failed(err)
	}
	files, err := r.tenantFiles(s)
	if err != nil {
		return flow.Failed(err)
	}
	if err := s.addFormer(ctx, files, present); err != nil {
		return flow.Failed(err)
	}
	seed, missing, err := r.seedFiles(ctx, s, seeded)
	if err != nil {
		return flow.Failed(err)
	}
	if missing != "" {
		return flow.Waiting(missing)
	}
	maps.Copy(files, seed)
	if spec != nil {
		told, problem, err := r.backupFiles(ctx, s, spec, present)
		if err != nil {
			problem = errortext.Steady(err)
		}
		if s.backup.Problem = problem; problem != "" && !seeded && present != nil {
			// What members were told before is better than nothing.
			return flow.Failed(s.store.WriteFiles(ctx, of, withoutSeed(present)))
		}
		// A seed may be in another store. Its credentials are needed first.
		for name, file := range told {
			if _, there := files[name]; !there {
				files[name] = file
			}
		}
	}
	return flow.Failed(s.store.WriteFiles(ctx, of, files))
}

func (s *scope) backupSecret() pki.Files {
	return pki.Files{Cluster: s.key, Name: names.Backup(s.key.Name), Component: names.EtcdData, Owner: s.hostOwner()}
}

// keepBackup takes back what an etcd that was seen since begins with: a member that lost its volume would begin with it again.
func (r *Reconciler) keepBackup(ctx context.Context, s *scope) flow.Result {
	if etcdclusters.Seeded(s.controlPlane, names.EtcdData) {
		return flow.Done()
	}
	of := s.backupSecret()
	present, err := s.store.ReadFiles(ctx, of)
	if err != nil || present == nil {
		return flow.Failed(err)
	}
	return flow.Failed(s.store.WriteFiles(ctx, of, withoutSeed(present)))
}

func withoutSeed(files map[string][]byte) map[string][]byte {
	kept := maps.Clone(files)
	delete(kept, backup.SeedFile)
	return kept
}

// seedGone reports whether no member can begin with a snapshot any more. Before that no member is replaced.
func (s *scope) seedGone() bool {
	return s.controlPlane.Spec.Etcd.Restore == nil ||
		slices.ContainsFunc(s.outcomes, func(o flow.Outcome) bool { return o.Name == names.StepBackup && o.Done() })
}

// tenantFiles are the keys of the tenant's snapshots.
func (r *Reconciler) tenantFiles(s *scope) (map[string][]byte, error) {
	hmac, identity, _, err := s.keys.SnapshotKeys()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{backup.KeyFile: hmac, backup.IdentityFile: []byte(identity.String() + "\n")}, nil
}

// storeFiles are the credentials of a store, or what a person has to do before. The Secrets have no label of a Cluster and are in
// no cache.
func (r *Reconciler) storeFiles(ctx context.Context, namespace string, store controlplanev1.EtcdSnapshotStore, field string) (files map[string][]byte, missing string, err error) {
	files = map[string][]byte{}
	if store.S3 == nil {
		return files, "", nil
	}
	take := func(ref controlplanev1.SecretReference, field string, keys map[string]string, needed ...string) (string, error) {
		secret := &corev1.Secret{}
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, secret)
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("%s names the Secret %s, which is not in namespace %s: create it there", field, ref.Name, namespace), nil
		}
		if err != nil {
			return "", fmt.Errorf("read the Secret %s of %s: %w", ref.Name, field, err)
		}
		for _, key := range needed {
			if len(secret.Data[key]) == 0 {
				return fmt.Sprintf("%s names the Secret %s, which has no key %s: add it", field, ref.Name, key), nil
			}
		}
		for key, file := range keys {
			if len(secret.Data[key]) > 0 {
				files[file] = secret.Data[key]
			}
		}
		return "", giveaway.TakeAlong(ctx, r.Client, secret)
	}
	missing, err = take(store.S3.CredentialsRef, field+".s3.credentialsRef", map[string]string{
		backup.AccessKeyIDFile: backup.AccessKeyIDFile, backup.SecretAccessKeyFile: backup.SecretAccessKeyFile, backup.SessionTokenFile: backup.SessionTokenFile,
	}, backup.AccessKeyIDFile, backup.SecretAccessKeyFile)
	if err == nil && missing == "" && store.S3.CARef.Name != "" {
		missing, err = take(store.S3.CARef, field+".s3.caRef", map[string]string{"ca.crt": backup.S3CAFile}, "ca.crt")
	}
	return files, missing, err
}

// backupFiles tell members how they are backed up, or what is missing before that. They are told nothing before the tenant has a
// UID, by which its snapshots are known.
func (r *Reconciler) backupFiles(ctx context.Context, s *scope, spec *controlplanev1.EtcdBackupSpec, present map[string][]byte) (files map[string][]byte, problem string, err error) {
	files, problem, err = r.storeFiles(ctx, s.controlPlane.Namespace, spec.Store, "spec.etcd.backup.store")
	if problem != "" || err != nil {
		return nil, problem, err
	}
	before := backup.Config{}
	if file := present[backup.ConfigFile]; len(file) > 0 {
		if before, err = backup.DecodeConfig(file); err != nil {
			before = backup.Config{} // Somebody edited it; it is written anew.
		}
	}
	uid := r.tenantUID(s, before.Cluster.UID)
	if uid == "" {
		return files, "the tenant has not told its UID yet, by which its snapshots are known", nil
	}
	_, identity, keyID, err := s.keys.SnapshotKeys()
	if err != nil {
		return nil, "", err
	}
	bundle, err := pki.EncodeKeys(s.keys)
	if err != nil {
		return nil, "", err
	}
	of := backups.Tenant{
		Cluster: s.key, UID: uid, Recipient: identity.Recipient().String(), EncryptionKeyID: keyID,
		KeysID: pki.KeysID(bundle, spec.Recipients),
	}
	// age gives other bytes each time.
	files[backup.KeysFile] = present[backup.KeysFile]
	if before.KeysID != of.KeysID || len(files[backup.KeysFile]) == 0 {
		if files[backup.KeysFile], err = pki.SealKeys(bundle, spec.Recipients); err != nil {
			return nil, "spec.etcd.backup.recipients: " + err.Error(), nil //nolint:nilerr // A person has to mend it.
		}
	}
	files[backup.ConfigFile], err = backup.Encode(backups.Config(spec, of))
	return files, "", err
}

// tenantUID is the UID of the tenant's namespace kube-system: the one that was known, else what a probe says; empty before.
func (r *Reconciler) tenantUID(s *scope, known string) string {
	key := probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: uidProbeKind}
	if known != "" {
		r.prober.Withdraw(key)
		return known
	}
	if !runs(s.controlPlane) {
		return ""
	}
	check := r.tenantProbe(s)
	result, _ := r.prober.Probe(key, probe.Probe{Identity: check.address + string(s.keys.ClusterCA.Bundle), Timeout: backupTimeout, Do: check.uid})
	uid, _ := result.Value.(string)
	return uid
}

// uid asks a tenant for the UID of its namespace kube-system.
func (v *tenantProbe) uid(ctx context.Context) probe.Result {
	if err := v.connect(); err != nil {
		return probe.Result{Problem: errortext.Steady(err)}
	}
	namespace := &corev1.Namespace{}
	if err := v.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return probe.Result{Problem: errortext.Steady(err)}
	}
	return probe.Result{Value: string(namespace.UID)}
}
