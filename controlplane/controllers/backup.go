package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/snapshotstore"
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

// ensureBackup keeps the Secret from which members of the data etcd learn how they are backed up, and which snapshot a new one
// begins with. A backup that cannot be is no reason to stop: the condition EtcdBackedUp says why. A snapshot that cannot be
// had is: etcd must not begin with nothing in its place.
func (r *Reconciler) ensureBackup(ctx context.Context, s *scope) flow.Result {
	of := pki.Files{Cluster: s.key, Name: names.Backup(s.key.Name), Component: names.EtcdData, Owner: s.hostOwner()}
	spec, seeded := s.controlPlane.Spec.Etcd.Backup, etcdclusters.Seeded(s.controlPlane, names.EtcdData)
	if spec == nil && !seeded {
		return flow.Failed(s.store.DeleteFiles(ctx, of))
	}
	if r.EtcdAgentImage == "" {
		const noAgent = "the manager's flag --etcd-agent-image names no image of kok-etcd-agent, without which members neither take nor restore snapshots: set it"
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

// keepBackup takes back what an etcd that was seen since begins with: a member that lost its volume would begin with it again.
func (r *Reconciler) keepBackup(ctx context.Context, s *scope) flow.Result {
	if etcdclusters.Seeded(s.controlPlane, names.EtcdData) {
		return flow.Done()
	}
	of := pki.Files{Cluster: s.key, Name: names.Backup(s.key.Name), Component: names.EtcdData, Owner: s.hostOwner()}
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
	hmac, identity, _, err := pki.SnapshotKeys(s.keys.EncryptionKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{backup.KeyFile: hmac, backup.IdentityFile: []byte(identity.String() + "\n")}, nil
}

// seedFiles say which snapshot the first member begins with, or what a person has to do before.
func (r *Reconciler) seedFiles(ctx context.Context, s *scope, seeded bool) (files map[string][]byte, missing string, err error) {
	if !seeded {
		return nil, "", nil
	}
	origin, missing, err := r.origin(ctx, s)
	if err != nil || missing != "" {
		return nil, missing, err
	}
	if files, missing, err = r.storeFiles(ctx, s.controlPlane.Namespace, origin.Store, "spec.source.store of KOKEtcdSnapshot "+s.controlPlane.Spec.Etcd.Restore.Snapshot); err != nil || missing != "" {
		return nil, missing, err
	}
	member := etcdcomponent.Data.Wanted(&s.input)[0]
	if s.input.Addresses[member] == "" {
		return nil, fmt.Sprintf("Service %s has no address yet", member), nil
	}
	files[backup.SeedFile], err = backup.Encode(backup.Seed{
		Slot: origin.Slot, Store: backups.Store(origin.Store, origin.Of), Member: member,
		PeerURL: etcdcomponent.Data.PeerURL(&s.input, member), EtcdVersion: seedVersion(s),
	})
	return files, "", err
}

// seedVersion is the version of etcd that starts from the snapshot; empty where an image of its own may have any.
func seedVersion(s *scope) string {
	if s.controlPlane.Spec.Etcd.Image != "" {
		return ""
	}
	return strings.SplitN(s.input.EtcdImageTag, "-", 2)[0]
}

// origin finds the snapshot that spec.etcd.restore names.
func (r *Reconciler) origin(ctx context.Context, s *scope) (origin backups.Origin, missing string, err error) {
	key := client.ObjectKey{Namespace: s.controlPlane.Namespace, Name: s.controlPlane.Spec.Etcd.Restore.Snapshot}
	snapshot := &controlplanev1.KOKEtcdSnapshot{}
	switch err := r.Client.Get(ctx, key, snapshot); {
	case apierrors.IsNotFound(err):
		return origin, fmt.Sprintf("spec.etcd.restore.snapshot names the KOKEtcdSnapshot %s, which is not in namespace %s: `kok etcd restore` makes one", key.Name, key.Namespace), nil
	case err != nil:
		return origin, "", fmt.Errorf("read KOKEtcdSnapshot %s: %w", key, err)
	}
	controlPlane, cluster := &controlplanev1.KOKControlPlane{}, client.ObjectKey{Namespace: key.Namespace}
	if snapshot.Spec.Source == nil {
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: snapshot.Spec.ControlPlaneName}, controlPlane); client.IgnoreNotFound(err) != nil {
			return origin, "", fmt.Errorf("read the KOKControlPlane of KOKEtcdSnapshot %s: %w", key, err)
		}
		cluster.Name = controlPlane.Labels[clusterv1.ClusterNameLabel]
	}
	if source := snapshot.Spec.Source; source != nil {
		path := field.NewPath("spec", "source", "store")
		problems := snapshotstore.Validate(source.Store, path)
		if source.Store.S3 != nil && source.Store.S3.Prefix == "" {
			problems = append(problems, field.Required(path.Child("s3", "prefix"), "name the prefix of the former control plane: <namespace>/<name> of its Cluster, unless it had another"))
		}
		if len(problems) > 0 {
			return origin, fmt.Sprintf("KOKEtcdSnapshot %s: %v", key.Name, problems.ToAggregate()), nil
		}
	}
	origin, ok := backups.OriginOf(snapshot, controlPlane, cluster)
	if !ok {
		return origin, fmt.Sprintf("spec.etcd.restore.snapshot names the KOKEtcdSnapshot %s, of which no snapshot is in a store: wait until it has the condition Verified, or name another", key.Name), nil
	}
	if claim := origin.Store.ClaimName; claim != "" {
		if own := s.controlPlane.Spec.Etcd.Backup; own == nil || own.Store.ClaimName != claim {
			return origin, fmt.Sprintf("KOKEtcdSnapshot %s is in the volume of claim %s, which members mount only where spec.etcd.backup.store.claimName names it: set that", key.Name, claim), nil
		}
	}
	return origin, "", nil
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
	_, identity, keyID, err := pki.SnapshotKeys(s.keys.EncryptionKey)
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

// observeBackup asks members for their snapshots, has them take those that people want, and keeps an object for each one.
func (r *Reconciler) observeBackup(ctx context.Context, s *scope) error {
	key := probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: backupProbeKind}
	if s.controlPlane.Spec.Etcd.Backup == nil || s.keys == nil || len(s.input.Addresses) == 0 || !runs(s.controlPlane) {
		r.prober.Withdraw(key)
		return nil
	}
	list := &controlplanev1.KOKEtcdSnapshotList{}
	if err := r.Client.List(ctx, list, client.InNamespace(s.controlPlane.Namespace)); err != nil {
		return fmt.Errorf("list the KOKEtcdSnapshots of the control plane: %w", err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(o controlplanev1.KOKEtcdSnapshot) bool { return o.Spec.ControlPlaneName != s.controlPlane.Name })
	ask := r.backupProbe(s, backups.Wanted(list.Items, r.Clock.Now()))
	result, asked := r.prober.Probe(key, ask)
	if !asked {
		s.probing = true
	}
	if answer, ok := result.Value.(backupAnswer); ok {
		s.backup.Report, s.backup.Err = answer.report, answer.err
	}
	return r.keepRecords(ctx, s, backups.Reconciled(s.controlPlane, list.Items, s.backup.Report, r.Clock.Now()))
}

// backupProbe asks all members at once.
func (r *Reconciler) backupProbe(s *scope, wanted []time.Time) probe.Probe {
	members := backupMembers(s)
	config, configErr := s.keys.ClientTLS(r.Clock, pki.EtcdCA, names.ManagerUser, nil, "")
	var last *backup.Report
	return probe.Probe{
		Identity: fmt.Sprintf("%s %v %s", s.host.Identity, addressesOf(members), s.keys.EtcdCA.Bundle), Prompt: fmt.Sprint(wanted), Timeout: backupTimeout,
		Do: func(ctx context.Context) probe.Result {
			if configErr != nil {
				return probe.Result{Problem: errortext.Steady(configErr)}
			}
			report, err := backups.Ask(ctx, members, config)
			if err != nil {
				why := errortext.Steady(err)
				return probe.Result{Problem: why, Value: backupAnswer{last, why}}
			}
			last = report
			open := missingSlots(wanted, report)
			var failed []error
			for _, slot := range open {
				if !report.Working.Equal(slot) {
					failed = append(failed, backups.Take(ctx, backups.OnDutyFirst(members, report), config, slot))
				}
			}
			problem := ""
			if len(open) > 0 {
				problem = fmt.Sprintf("%d snapshots are being taken", len(open))
			}
			if err := errors.Join(failed...); err != nil {
				problem += ": " + errortext.Steady(err)
			}
			return probe.Result{Problem: problem, Value: backupAnswer{report: report}}
		},
	}
}

// backupAnswer is the last report of a member, and why nobody answers now.
type backupAnswer struct {
	report *backup.Report
	err    string
}

// missingSlots are those of which the store has no verified or refused snapshot.
func missingSlots(wanted []time.Time, report *backup.Report) []time.Time {
	var missing []time.Time
	for _, slot := range wanted {
		done := false
		for _, s := range report.Snapshots {
			done = done || s.Slot.Equal(slot) && (!s.Verified.IsZero() || s.Reason != "")
		}
		if !done {
			missing = append(missing, slot)
		}
	}
	return missing
}

// backupMembers are how the agents of members are reached.
func backupMembers(s *scope) []backups.Member {
	port := etcdcomponent.Data.Ports(&s.input).Backup
	var members []backups.Member
	for _, name := range etcdcomponent.Data.Members(&s.input) {
		address := s.input.Addresses[name]
		if address == "" {
			continue
		}
		m := backups.Member{Name: name, Address: net.JoinHostPort(address, fmt.Sprint(port))}
		if s.host.Dial != nil {
			pod := client.ObjectKey{Namespace: s.key.Namespace, Name: name}
			m.Dial = func(ctx context.Context) (net.Conn, error) { return s.host.Dial(ctx, pod, port) }
		}
		members = append(members, m)
	}
	return members
}

func addressesOf(members []backups.Member) []string {
	addresses := make([]string, len(members))
	for i, m := range members {
		addresses[i] = m.Address
	}
	return addresses
}

// keepRecords makes the objects of snapshots say what the store has.
func (r *Reconciler) keepRecords(ctx context.Context, s *scope, records backups.Records) error {
	var errs []error
	for _, object := range records.Create {
		object.OwnerReferences = []metav1.OwnerReference{*s.owner()}
		object.Labels = map[string]string{clusterv1.ClusterNameLabel: s.key.Name}
		if err := r.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, fmt.Errorf("create KOKEtcdSnapshot %s: %w", object.Name, err))
		}
	}
	for _, object := range records.Delete {
		if err := r.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete KOKEtcdSnapshot %s: %w", object.Name, err))
		}
	}
	return errors.Join(append(errs, r.describeRecords(ctx, records.Update))...)
}

// describeRecords writes the status of snapshots.
func (r *Reconciler) describeRecords(ctx context.Context, objects []*controlplanev1.KOKEtcdSnapshot) error {
	var errs []error
	for _, object := range objects {
		if err := r.Client.Status().Update(ctx, object); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("write the status of KOKEtcdSnapshot %s: %w", object.Name, err))
		}
	}
	return errors.Join(errs...)
}

// snapshotToControlPlane finds the control plane that a snapshot is of.
func snapshotToControlPlane(_ context.Context, object client.Object) []reconcile.Request {
	snapshot, ok := object.(*controlplanev1.KOKEtcdSnapshot)
	if !ok || snapshot.Spec.ControlPlaneName == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: snapshot.Namespace, Name: snapshot.Spec.ControlPlaneName}}}
}
