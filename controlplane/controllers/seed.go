package controllers

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/snapshotstore"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// seedFiles say which snapshot the first member begins with, or what a person has to do before.
func (r *Reconciler) seedFiles(ctx context.Context, s *scope, seeded bool) (files map[string][]byte, missing string, err error) {
	if !seeded {
		return nil, "", nil
	}
	seed, files, restore := backup.Seed{Member: s.seed()}, map[string][]byte{}, s.controlPlane.Spec.Etcd.Restore
	if s.input.Addresses[seed.Member] == "" {
		return nil, fmt.Sprintf("Service %s has no address yet", seed.Member), nil
	}
	seed.PeerURL = etcdcomponent.Data.PeerURL(&s.input, seed.Member)
	if s.rebuild.founding() {
		seed.Restore = s.rebuild.record.Restore
	}
	if seed.Survivor = restore.Survivor != ""; !seed.Survivor {
		origin, missing, err := r.origin(ctx, s)
		if err != nil || missing != "" {
			return nil, missing, err
		}
		if files, missing, err = r.backups().Credentials(ctx, s.controlPlane.Namespace, origin.Store, "spec.source.store of KOKEtcdSnapshot "+restore.Snapshot); err != nil || missing != "" {
			return nil, missing, err
		}
		seed.Slot, seed.Store, seed.EtcdVersion = origin.Slot, backups.Store(origin.Store, origin.Of), seedVersion(s)
	}
	files[backup.SeedFile], err = backup.Encode(seed)
	return files, "", err
}

// seed is the member that begins with a snapshot, or with its own data of a former cluster: the first one, unless a restore in
// place has chosen another.
func (s *scope) seed() string {
	if s.rebuild.founding() {
		return s.rebuild.record.Seed
	}
	return etcdcomponent.Data.Wanted(&s.input)[0]
}

// everRestored reports whether the data etcd is, or ever was, restored in place.
func (s *scope) everRestored() bool {
	data := etcdclusters.Status(s.controlPlane, names.EtcdData)
	return s.rebuild.record.Restore != "" || !data.RestoredAt.IsZero()
}

// addFormer adds the clusters whose data must not start again. They are those of the record; where it was not read, they are what
// members were told before.
func (s *scope) addFormer(ctx context.Context, files, present map[string][]byte) error {
	if !s.everRestored() {
		return nil
	}
	if file := present[backup.FormerFile]; len(file) > 0 && !s.rebuild.read {
		files[backup.FormerFile] = file
		return nil
	}
	if !s.rebuild.read {
		if err := s.readRecord(ctx); err != nil {
			return err
		}
	}
	var err error
	files[backup.FormerFile], err = backup.Encode(backup.Former{ClusterIDs: s.rebuild.record.Former})
	return err
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
