package etcd

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Volumes of a member that takes snapshots, or begins with one.
const (
	backupVolume    = "kok-backup"
	programVolume   = "kok-program"
	trialVolume     = "kok-trial"
	snapshotsVolume = "kok-snapshots"
	ownVolume       = names.SnapshotsVolume
)

// programSize has room for the agent's program, several times.
const programSize = "128Mi"

// backsUp reports whether members take snapshots: the agent's image is needed for it.
func (c Cluster) backsUp(in *components.Input) bool {
	return c.backup != nil && in.Spec.Etcd.Backup != nil && in.EtcdAgentImage != ""
}

// restores reports whether a member may begin with a snapshot.
func (c Cluster) restores(in *components.Input) bool {
	return c.backup != nil && in.Spec.Etcd.Restore != nil && in.EtcdAgentImage != ""
}

// claimName is the claim of the volume with snapshots that all members share; empty where they are elsewhere.
func (c Cluster) claimName(in *components.Input) string {
	if !c.backsUp(in) {
		return ""
	}
	return in.Spec.Etcd.Backup.Store.ClaimName
}

// perMember reports whether each member keeps snapshots on a volume of its own.
func (c Cluster) perMember(in *components.Input) bool {
	return c.backsUp(in) && in.Spec.Etcd.Backup.Store.PerMember != nil
}

// ownVolumes are the volumes for snapshots that the StatefulSet has for each member; nil for none. Pods get them whether or not their
// containers mount them.
func (c Cluster) ownVolumes(in *components.Input) *controlplanev1.PerMemberStoreSpec {
	switch {
	case c.backup == nil:
		return nil
	case in.Spec.Etcd.Backup != nil && in.Spec.Etcd.Backup.Store.PerMember != nil:
		return in.Spec.Etcd.Backup.Store.PerMember
	}
	return in.SnapshotVolumes
}

// storeVolume is the volume with snapshots that a member mounts; empty where they are in a bucket.
func (c Cluster) storeVolume(in *components.Input) string {
	switch {
	case c.claimName(in) != "":
		return snapshotsVolume
	case c.perMember(in):
		return ownVolume
	}
	return ""
}

// WithSnapshotVolumes is the input with the volumes for snapshots that the StatefulSet of the cluster was made with; nil for none. Nobody can
// change them.
func (c Cluster) WithSnapshotVolumes(in *components.Input, made *controlplanev1.PerMemberStoreSpec) *components.Input {
	if c.backup == nil || made == nil && c.ownVolumes(in) == nil {
		return in
	}
	other := *in
	other.Spec = *in.Spec.DeepCopy()
	if spec := other.Spec.Etcd.Backup; spec != nil && spec.Store.PerMember != nil {
		other.SnapshotVolumes, spec.Store.PerMember = nil, made
	} else {
		other.SnapshotVolumes = made
	}
	return &other
}

// SnapshotVolumes are the volumes for snapshots that a StatefulSet has for each member; nil for none.
func SnapshotVolumes(set *appsv1.StatefulSet) *controlplanev1.PerMemberStoreSpec {
	for _, claim := range set.Spec.VolumeClaimTemplates {
		if claim.Name == ownVolume {
			return &controlplanev1.PerMemberStoreSpec{StorageClassName: claim.Spec.StorageClassName, Size: claim.Spec.Resources.Requests.Storage()}
		}
	}
	return nil
}

// adaptBackup takes the container backup out, or has prepare leave the agent's program for it. It runs in etcd's image, for the
// trial needs an etcd of the member's version.
func (c Cluster) adaptBackup(pod *corev1.PodSpec, in *components.Input) {
	etcd, snapshots := &pod.Containers[0], &pod.Containers[1]
	if c.backsUp(in) || c.restores(in) {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: backupVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: names.Backup(in.Cluster.Name), Optional: ptr.To(true)},
		}})
	}
	if claim := c.claimName(in); claim != "" {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: snapshotsVolume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	if c.restores(in) {
		c.adaptRestore(&pod.InitContainers[0], in)
		c.adaptSalvage(&pod.InitContainers[1], &pod.InitContainers[0], etcd.Image)
	} else if len(pod.InitContainers) > 1 {
		pod.InitContainers = pod.InitContainers[:1]
	}
	if c.backsUp(in) || c.restores(in) {
		prepare := &pod.InitContainers[0]
		prepare.Args = append(prepare.Args, "--copy-to="+backup.ProgramDirectory)
		prepare.VolumeMounts = append(prepare.VolumeMounts, corev1.VolumeMount{Name: programVolume, MountPath: backup.ProgramDirectory})
		pod.Volumes = append(pod.Volumes, scratch(programVolume, resource.MustParse(programSize)))
	}
	if !c.backsUp(in) {
		pod.Containers = pod.Containers[:1]
		return
	}

	block := c.Ports(in)
	snapshots.Image = etcd.Image
	components.SetPort(snapshots, c.backup.Name, block.Backup)
	// The address of a member is no input of a rendering, so its family is not known here. Without a host the agent listens at all addresses
	// of both families.
	snapshots.Args = append(snapshots.Args, "--endpoint="+c.ownURL(in.Ports), fmt.Sprintf("--listen=:%d", block.Backup), "--client-name="+names.ManagerUser)
	if volume := c.storeVolume(in); volume != "" {
		snapshots.Args = append(snapshots.Args, "--store-dir="+backup.StoreDirectory)
		snapshots.VolumeMounts = append(snapshots.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: backup.StoreDirectory})
	}
	if c.perMember(in) {
		snapshots.Args = append(snapshots.Args, "--peer-name="+names.Object(in.Cluster.Name, c.Component))
	}
	quota := *c.Spec(in).QuotaBackendSize
	snapshots.Args = append(snapshots.Args, fmt.Sprintf("--quota=%d", quota.Value()))
	snapshots.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: memoryLimit(quota)}
	pod.Volumes = append(pod.Volumes, scratch(trialVolume, *resource.NewQuantity(backup.TrialBytes(quota.Value()), resource.BinarySI)))
}

// adaptRestore has prepare make the data of a member without any from a snapshot, if the manager has written which.
func (c Cluster) adaptRestore(prepare *corev1.Container, in *components.Input) {
	prepare.Args = append(prepare.Args, "--seed-dir="+backup.ConfigDirectory, "--member=$(POD_NAME)")
	prepare.Env = append(prepare.Env, corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
	}})
	prepare.VolumeMounts[0].ReadOnly = false
	prepare.VolumeMounts = append(prepare.VolumeMounts, corev1.VolumeMount{Name: backupVolume, MountPath: backup.ConfigDirectory, ReadOnly: true})
	if volume := c.storeVolume(in); volume != "" {
		prepare.VolumeMounts = append(prepare.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: backup.StoreDirectory, ReadOnly: true})
	}
}

// adaptSalvage gives salvage the image of etcd, which it starts for a moment, and what prepare may use.
func (c Cluster) adaptSalvage(salvage, prepare *corev1.Container, image string) {
	salvage.Name, salvage.Image = backup.SalvageContainer, image
	salvage.Args = append(salvage.Args, "--data-dir="+dataDirectory)
	salvage.Resources = *prepare.Resources.DeepCopy()
}

func scratch(name string, size resource.Quantity) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}
}
