package restore

import (
	"context"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/snapshotstore"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Beginning tells members how they begin.
type Beginning struct {
	Files map[string][]byte
	// Missing tells people what has to happen before the first member can begin; empty if nothing has to.
	Missing string
	// Progress is the progress that Begin got, with the record if Begin had to read it.
	Progress Progress
}

// Begin tells members which clusters' data must not start again. While the first member is yet to begin with a snapshot or with its own
// former data, Begin tells it with which. before is what members were told last.
func (r *Restorer) Begin(ctx context.Context, of *Facts, p Progress, before map[string][]byte) (Beginning, error) {
	begin := Beginning{Files: map[string][]byte{}, Progress: p}
	if p.Ever(of.ControlPlane) {
		var err error
		if begin.Files[backup.FormerFile], begin.Progress, err = former(ctx, of, p, before[backup.FormerFile]); err != nil {
			return begin, err
		}
	}
	if !etcdclusters.Seeded(of.ControlPlane, names.EtcdData) {
		return begin, nil
	}
	seed, missing, err := r.seedFiles(ctx, of, &begin.Progress)
	if err != nil {
		return begin, err
	}
	begin.Missing = missing
	maps.Copy(begin.Files, seed)
	return begin, nil
}

// former lists the clusters whose data must not start again, as the record has them. If nobody read the record in this reconcile, former
// repeats what members were told last.
func former(ctx context.Context, of *Facts, p Progress, before []byte) ([]byte, Progress, error) {
	if len(before) > 0 && !p.read {
		return before, p, nil
	}
	if !p.read {
		var err error
		if p, err = p.readRecord(ctx, of); err != nil {
			return nil, p, err
		}
	}
	file, err := backup.Encode(backup.Former{ClusterIDs: p.Record.Former})
	return file, p, err
}

// seedFiles tells the first member which snapshot it begins with. missing tells people what they have to do first.
func (r *Restorer) seedFiles(ctx context.Context, of *Facts, p *Progress) (files map[string][]byte, missing string, err error) {
	seed, files, asks := backup.Seed{Member: seedMember(of.Input, p)}, map[string][]byte{}, p.Begins(of.ControlPlane)
	if of.Input.Addresses[seed.Member] == "" {
		return nil, fmt.Sprintf("Service %s has no address yet", seed.Member), nil
	}
	seed.PeerURL = etcdcomponent.Data.PeerURL(of.Input, seed.Member)
	if p.Founding() {
		seed.Restore = p.Record.Restore
	}
	if seed.Survivor = asks.Survivor != ""; !seed.Survivor {
		origin, missing, err := r.recordedOrigin(ctx, of, p, asks)
		if err != nil || missing != "" {
			return nil, missing, err
		}
		if files, missing, err = r.Backups.Credentials(ctx, of.ControlPlane.Namespace, origin.Store, "spec.source.store of KOKEtcdSnapshot "+asks.Snapshot); err != nil || missing != "" {
			return nil, missing, err
		}
		seed.Slot, seed.Store, seed.EtcdVersion = origin.Slot, backups.Store(origin.Store, origin.Of), seedVersion(of)
	}
	files[backup.SeedFile], err = backup.Encode(seed)
	return files, "", err
}

// seedMember is the member that begins with a snapshot, or with its own data of a former cluster: the first one, unless a restore in
// place has chosen another.
func seedMember(in *components.Input, p *Progress) string {
	if p.Founding() {
		return p.Record.Seed
	}
	return etcdcomponent.Data.Wanted(in)[0]
}

// seedVersion is the version of etcd that starts from the snapshot; empty if spec names an image of its own, which may have any version.
func seedVersion(of *Facts) string {
	if of.ControlPlane.Spec.Etcd.Image != "" {
		return ""
	}
	return strings.SplitN(of.Input.EtcdImageTag, "-", 2)[0]
}

// recordedOrigin finds the snapshot that a control plane begins with. A restore in place that has begun knows where its snapshot is, even if
// its object was deleted since.
func (r *Restorer) recordedOrigin(ctx context.Context, of *Facts, p *Progress, asks controlplanev1.EtcdRestoreSpec) (origin backups.Origin, missing string, err error) {
	if !p.Founding() || p.Record.Slot == "" {
		return r.origin(ctx, of.ControlPlane, asks)
	}
	recorded := &controlplanev1.KOKEtcdSnapshot{Spec: controlplanev1.KOKEtcdSnapshotSpec{ControlPlaneName: of.ControlPlane.Name, Slot: p.Record.Slot}}
	cluster := client.ObjectKey{Namespace: of.ControlPlane.Namespace, Name: of.ControlPlane.Labels[clusterv1.ClusterNameLabel]}
	origin, ok := backups.OriginOf(recorded, of.ControlPlane, cluster)
	if !ok {
		return origin, fmt.Sprintf("spec.etcd.backup is not set, whose store has the snapshot %s that the data etcd is founded anew with: set it again", asks.Snapshot), nil
	}
	return origin, "", nil
}

// origin finds the snapshot that a control plane begins with.
func (r *Restorer) origin(ctx context.Context, to *controlplanev1.KOKControlPlane, asks controlplanev1.EtcdRestoreSpec) (origin backups.Origin, missing string, err error) {
	key := client.ObjectKey{Namespace: to.Namespace, Name: asks.Snapshot}
	snapshot := &controlplanev1.KOKEtcdSnapshot{}
	switch err := r.Management.Get(ctx, key, snapshot); {
	case apierrors.IsNotFound(err):
		return origin, fmt.Sprintf("spec.etcd.restore.snapshot names the KOKEtcdSnapshot %s, which is not in namespace %s: `kok etcd restore` makes one", key.Name, key.Namespace), nil
	case err != nil:
		return origin, "", fmt.Errorf("read KOKEtcdSnapshot %s: %w", key, err)
	}
	controlPlane, cluster := &controlplanev1.KOKControlPlane{}, client.ObjectKey{Namespace: key.Namespace}
	if snapshot.Spec.Source == nil {
		if err := r.Management.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: snapshot.Spec.ControlPlaneName}, controlPlane); client.IgnoreNotFound(err) != nil {
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
	if problem := ofOtherMembers(snapshot, origin.Store, to, asks); problem != "" {
		return origin, problem, nil
	}
	if claim := origin.Store.ClaimName; claim != "" {
		if own := to.Spec.Etcd.Backup; own == nil || own.Store.ClaimName != claim {
			return origin, fmt.Sprintf("KOKEtcdSnapshot %s is in the volume of claim %s, which members mount only where spec.etcd.backup.store.claimName names it: set that", key.Name, claim), nil
		}
	}
	return origin, "", nil
}

// ofOtherMembers says that a snapshot is on volumes that the members of a control plane do not have; empty if it is not.
func ofOtherMembers(snapshot *controlplanev1.KOKEtcdSnapshot, store controlplanev1.EtcdSnapshotStore, to *controlplanev1.KOKControlPlane, asks controlplanev1.EtcdRestoreSpec) string {
	const wayOut = "have the former control plane store snapshots in a bucket or in a claim (spec.etcd.backup.store), take one there by `kok etcd snapshot`, and name that one"
	switch of := snapshot.Spec.ControlPlaneName; {
	case store.PerMember == nil:
	case of == "":
		return fmt.Sprintf("KOKEtcdSnapshot %s is on the volumes of members, which their own control plane alone mounts: %s", snapshot.Name, wayOut)
	case of != to.Name || asks.RequestedAt.IsZero(): // A new control plane has new volumes, whatever its name is.
		return fmt.Sprintf("KOKEtcdSnapshot %s is on the volumes of the members of KOKControlPlane %s, which no new control plane mounts: %s", snapshot.Name, of, wayOut)
	}
	return ""
}
