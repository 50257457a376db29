package restore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery/seen"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
)

// judge says what is wrong with a request, before anything stops; empty if nothing is. told is what members said.
func (r *Restorer) judge(ctx context.Context, of *Facts, asks controlplanev1.EtcdRestoreSpec, state rebuild.State, pods []corev1.Pod, told backups.Answer) (string, error) {
	switch {
	case of.Unrendered != nil && state.Record.Restore == "": // Only a rendering for a restore tells members what they begin with.
		return fmt.Sprintf("the controller cannot tell members what they begin with, because it renders nothing new: %v", of.Unrendered), nil
	case r.AgentImage == "":
		return backups.NoAgent, nil
	case len(state.Next.Members) > 0 && state.ClusterID == "" && len(state.Next.Former) == 0 && mayHaveData(pods):
		return "no member of the data etcd has told the ID of its cluster yet, by which its data are put aside: wait until one answers, or until its container prepare has looked", nil
	}
	if asks.Survivor != "" {
		return judgeSurvivor(of.ControlPlane.Spec.Etcd.Data.Storage.Type, state, pods, told.Volumes), nil
	}
	return r.judgeSnapshot(ctx, of, asks, state.Next.Seed, told)
}

// tooSmall says that the volume of a member has too little room for the data of a new cluster beside the former data. It says nothing if
// there is enough room, or if the member did not tell.
func tooSmall(volumes map[string]backup.Volume, member string, need int64) string {
	volume, told := volumes[member]
	if !told || volume.FreeBytes >= need {
		return ""
	}
	return fmt.Sprintf("the volume of %s has %d bytes of room, and %d are needed beside the former data: raise spec.etcd.data.storage.size where volumes can grow, or make room for %d bytes on it",
		member, volume.FreeBytes, need, need-volume.FreeBytes)
}

// mayHaveData reports whether any member may still have its data, as far as pods tell.
func mayHaveData(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return !lostData(&pod) })
}

func lostData(pod *corev1.Pod) bool {
	data := seen.Data(pod)
	return data == recovery.Empty || data == recovery.Unreadable
}

// judgeSurvivor refuses a member that lacks data which another member has, and any member while a quorum can return.
func judgeSurvivor(storage controlplanev1.EtcdStorageType, state rebuild.State, pods []corev1.Pod, volumes map[string]backup.Volume) string {
	name := state.Next.Seed
	if storage == controlplanev1.EtcdStorageEmptyDir {
		return fmt.Sprintf("survivor: the data of %s go with its pod, for spec.etcd.data.storage.type is %s: restore a snapshot", name, controlplanev1.EtcdStorageEmptyDir)
	}
	former, voters := state.FormerMembers()
	// The restore that is under way could begin because no quorum could return, and it stopped all members. Having their pods run again is
	// no way out.
	anotherSurvivor := state.Record.UnderWay() && state.Record.FromSurvivor()
	var members, left []string
	for _, m := range former {
		members = append(members, m.Name)
		i := hostpods.Index(pods, m.Name)
		_, heard := state.Heard[m.Host]
		// It put its data aside, and has them still.
		aside := m.Name == state.Record.Seed && (anotherSurvivor || state.Record.Phase == rebuild.Founding && isEmpty(pods, m.Name))
		if !slices.Contains(state.GivenUp, m.Name) && (i < 0 && heard || i >= 0 && (aside || !lostData(&pods[i]))) {
			left = append(left, m.Name)
		}
	}
	switch {
	case len(members) == 0:
		return "survivor: the data etcd has no members yet: name a snapshot"
	case !slices.Contains(members, name):
		return fmt.Sprintf("survivor names %s, which is no member of the data etcd: name one of %s", name, strings.Join(members, ", "))
	case !slices.Contains(left, name):
		return fmt.Sprintf("survivor names %s, whose data are lost, or which is given up: name another member, or a snapshot", name)
	case mayHaveRestored(state.Record, pods, name):
		return fmt.Sprintf("survivor names %s, which was about to begin with a snapshot: its newest data may be that snapshot's; name another member or a snapshot", name)
	case len(left) > voters/2 && !anotherSurvivor:
		return fmt.Sprintf("survivor: members %s have their data and are a majority, so that a quorum can return: have their pods run again, or name in spec.etcd.givenUp those whose data are lost", strings.Join(left, ", "))
	}
	for _, other := range left {
		if ends, goesOn := volumes[name], volumes[other]; ends.EndsBefore(goesOn) {
			return fmt.Sprintf("survivor names %s, whose log ends with entry %d of term %d, and that of %s with entry %d of term %d, so that it may have writes that the first one lacks: name %s",
				name, ends.LogIndex, ends.LogTerm, other, goesOn.LogIndex, goesOn.LogTerm, other)
		}
	}
	return tooSmall(volumes, name, volumes[name].SurvivorBytes)
}

// mayHaveRestored reports whether the newest data of a member may be those of a snapshot, with which a restore that is not over had it begin.
// One whose data directory is empty has restored nothing since it put its own data aside.
func mayHaveRestored(record rebuild.Record, pods []corev1.Pod, name string) bool {
	if !record.UnderWay() {
		return false
	}
	return slices.ContainsFunc(record.Tried, func(t rebuild.Try) bool { return t.Member == name }) ||
		record.Phase == rebuild.Founding && !record.FromSurvivor() && name == record.Seed && !isEmpty(pods, name)
}

// isEmpty reports whether the pod of a member tells that its data directory is empty.
func isEmpty(pods []corev1.Pod, name string) bool {
	i := hostpods.Index(pods, name)
	return i >= 0 && seen.Data(&pods[i]) == recovery.Empty
}

// isNewer reports whether one version of etcd is of a newer minor than another. It returns false if it cannot read one of them.
func isNewer(version, than string) bool {
	newer, err := archive.NewerMinor(version, than)
	return err == nil && newer
}

// judgeSnapshot refuses a snapshot that is not there, not verified, of another tenant, of another key, of a newer etcd, or too large for
// the volume of the seed, if its size is known. It also refuses one in a store that the seed cannot read now.
func (r *Restorer) judgeSnapshot(ctx context.Context, of *Facts, asks controlplanev1.EtcdRestoreSpec, seed string, told backups.Answer) (string, error) {
	key := client.ObjectKey{Namespace: of.ControlPlane.Namespace, Name: asks.Snapshot}
	snapshot := &controlplanev1.KOKEtcdSnapshot{}
	switch err := r.Management.Get(ctx, key, snapshot); {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("snapshot names the KOKEtcdSnapshot %s, which is not in namespace %s: `kok etcd list` shows the ones that are there", key.Name, key.Namespace), nil
	case err != nil:
		return "", fmt.Errorf("read KOKEtcdSnapshot %s: %w", key, err)
	}
	if problem := unfit(of, snapshot); problem != "" {
		return fmt.Sprintf("snapshot names the KOKEtcdSnapshot %s, %s", key.Name, problem), nil
	}
	if own := of.ControlPlane.Spec.Etcd.Backup; own != nil && own.Store.PerMember != nil && !slices.Contains(snapshot.Status.Members, seed) {
		return keptByNobody(snapshot), nil
	}
	if problem := tooSmall(told.Volumes, seed, backup.RestoreBytes(snapshot.Status.DatabaseBytes)); problem != "" {
		return problem, nil
	}
	origin, missing, err := r.origin(ctx, of.ControlPlane, asks)
	if err != nil || missing != "" {
		return missing, err
	}
	_, missing, err = r.Backups.Credentials(ctx, of.ControlPlane.Namespace, origin.Store, "spec.etcd.backup.store")
	if unread, ok := told.Unread[seed]; ok && missing == "" {
		missing = fmt.Sprintf("member %s, which would begin with the snapshot, cannot read spec.etcd.backup.store: %s", seed, backups.Text(&unread))
	}
	return missing, err
}

// keptByNobody says that no member can begin with a snapshot that is on volumes of members.
func keptByNobody(snapshot *controlplanev1.KOKEtcdSnapshot) string {
	if len(snapshot.Status.Members) == 0 {
		return fmt.Sprintf("snapshot names the KOKEtcdSnapshot %s, which no member has on its volume: name another", snapshot.Name)
	}
	return fmt.Sprintf("snapshot names the KOKEtcdSnapshot %s, which is on the volumes of %s alone, and none of these is a member that is not given up and whose host node is heard from: bring a host node back, or name another",
		snapshot.Name, strings.Join(snapshot.Status.Members, ", "))
}

// unfit says why a snapshot cannot be restored in place; empty if it can. Nobody has verified a snapshot that names its own store for this
// control plane.
func unfit(of *Facts, snapshot *controlplanev1.KOKEtcdSnapshot) string {
	_, _, keyID, err := of.Keys.SnapshotKeys()
	verified := conditions.Get(snapshot, conditionsv1.SnapshotVerifiedCondition)
	switch target, status := seedVersion(of), snapshot.Status; {
	case err != nil:
		return err.Error()
	case snapshot.Spec.ControlPlaneName != of.ControlPlane.Name:
		return "which is not one of this control plane: name one that `kok etcd list` shows, or restore it into a new Cluster"
	case verified == nil:
		return "which is not verified yet: wait for its condition Verified, or name another"
	case !conditions.IsTrue(snapshot, conditionsv1.SnapshotVerifiedCondition):
		return fmt.Sprintf("which cannot be used (%s: %s): name another", verified.Reason, verified.Message)
	case status.EncryptionKeyID != keyID:
		return fmt.Sprintf("which was taken with the encryption key %s, and the control plane has %s: name a younger one, or restore it into a new Cluster", status.EncryptionKeyID, keyID)
	case target != "" && isNewer(status.EtcdVersion, target):
		return fmt.Sprintf("which is of etcd %s, and the control plane has %s: upgrade it first, or name an older one", status.EtcdVersion, target)
	}
	return ""
}
