package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// selectedNode is what the scheduler writes on a claim whose pod it placed.
const selectedNode = "volume.kubernetes.io/selected-node"

// provisioner makes directories of one node.
type provisioner struct {
	node string
	root *os.Root
}

var (
	_ controller.Provisioner   = provisioner{}
	_ controller.Qualifier     = provisioner{}
	_ controller.DeletionGuard = provisioner{}
)

func newProvisioner(node, root string) (provisioner, error) {
	if node == "" {
		return provisioner{}, errors.New("no node given: set --node or NODE_NAME")
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return provisioner{}, fmt.Errorf("open the directory of volumes: %w", err)
	}
	return provisioner{node: node, root: dir}, nil
}

// ShouldProvision takes the claims of pods that were placed on this node.
func (p provisioner) ShouldProvision(_ context.Context, claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[selectedNode] == p.node
}

// Provision makes the volume's directory. Doing it again finds the directory and is fine.
func (p provisioner) Provision(_ context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if o.SelectedNodeName != p.node {
		return nil, controller.ProvisioningFinished, &controller.IgnoredError{Reason: "the pod is on node " + o.SelectedNodeName}
	}
	if mode := o.PVC.Spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		return nil, controller.ProvisioningFinished, fmt.Errorf("volume mode %s: local volumes are directories, use %s", *mode, corev1.PersistentVolumeFilesystem)
	}
	if err := p.root.Mkdir(o.PVName, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make volume %s: %w", o.PVName, err)
	}
	// Any user may run in the pod; the process's umask does not count.
	if err := p.root.Chmod(o.PVName, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("open volume %s to all users: %w", o.PVName, err)
	}
	return p.volume(o), controller.ProvisioningFinished, nil
}

func (p provisioner) volume(o controller.ProvisionOptions) *corev1.PersistentVolume {
	reclaim := corev1.PersistentVolumeReclaimDelete
	if o.StorageClass.ReclaimPolicy != nil {
		reclaim = *o.StorageClass.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: reclaim,
			AccessModes:                   o.PVC.Spec.AccessModes,
			MountOptions:                  o.StorageClass.MountOptions,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: filepath.Join(p.root.Name(), o.PVName)},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{p.node},
				}}}},
			}},
		},
	}
}

// ShouldDelete takes the volumes of this node.
func (p provisioner) ShouldDelete(_ context.Context, volume *corev1.PersistentVolume) bool {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return false
	}
	for _, term := range affinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == corev1.LabelHostname && slices.Equal(e.Values, []string{p.node}) {
				return true
			}
		}
	}
	return false
}

// Delete removes the volume's directory with its data.
func (p provisioner) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if err := p.root.RemoveAll(volume.Name); err != nil {
		return fmt.Errorf("remove the data of volume %s: %w", volume.Name, err)
	}
	return nil
}
