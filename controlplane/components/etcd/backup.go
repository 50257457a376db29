package etcd

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

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

// claimName is the claim of the volume with snapshots; empty where they are in a bucket.
func (c Cluster) claimName(in *components.Input) string {
	if !c.backsUp(in) {
		return ""
	}
	return in.Spec.Etcd.Backup.Store.ClaimName
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
	snapshots.Args = append(snapshots.Args, fmt.Sprintf("--endpoint=https://127.0.0.1:%d", block.Client), fmt.Sprintf("--listen=:%d", block.Backup), "--client-name="+names.ManagerUser)
	if c.claimName(in) != "" {
		snapshots.Args = append(snapshots.Args, "--store-dir="+backup.StoreDirectory)
		snapshots.VolumeMounts = append(snapshots.VolumeMounts, corev1.VolumeMount{Name: snapshotsVolume, MountPath: backup.StoreDirectory})
	}
	quota := *c.Spec(in).QuotaBackendSize
	snapshots.Args = append(snapshots.Args, fmt.Sprintf("--quota=%d", quota.Value()))
	snapshots.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: memoryLimit(quota)}
	pod.Volumes = append(pod.Volumes, scratch(trialVolume, trialSize(quota)))
}

// adaptRestore has prepare make the data of a member without any from a snapshot, if the manager has written which.
func (c Cluster) adaptRestore(prepare *corev1.Container, in *components.Input) {
	prepare.Args = append(prepare.Args, "--seed-dir="+backup.ConfigDirectory, "--member=$(POD_NAME)")
	prepare.Env = append(prepare.Env, corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
	}})
	prepare.VolumeMounts[0].ReadOnly = false
	prepare.VolumeMounts = append(prepare.VolumeMounts, corev1.VolumeMount{Name: backupVolume, MountPath: backup.ConfigDirectory, ReadOnly: true})
	if c.claimName(in) != "" {
		prepare.VolumeMounts = append(prepare.VolumeMounts, corev1.VolumeMount{Name: snapshotsVolume, MountPath: backup.StoreDirectory, ReadOnly: true})
	}
}

// adaptSalvage gives salvage the image of etcd, which it starts for a moment, and what prepare may use.
func (c Cluster) adaptSalvage(salvage, prepare *corev1.Container, image string) {
	salvage.Name, salvage.Image = backup.SalvageContainer, image
	salvage.Args = append(salvage.Args, "--data-dir="+dataDirectory)
	salvage.Resources = *prepare.Resources.DeepCopy()
}

// trialSize has room for a database of that size as it was sent and as it is restored, and for the log of the trial.
func trialSize(quota resource.Quantity) resource.Quantity {
	size := resource.MustParse("512Mi")
	size.Add(quota)
	size.Add(quota)
	return size
}

func scratch(name string, size resource.Quantity) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}
}
