package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func claim(node string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Annotations: map[string]string{selectedNode: node}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")}},
		},
	}
}

func TestAVolumeLivesAndDiesOnItsNode(t *testing.T) {
	root := t.TempDir()
	p, err := newProvisioner("idc-1", root)
	if err != nil {
		t.Fatal(err)
	}
	options := controller.ProvisionOptions{PVName: "pvc-1", PVC: claim("idc-1"), SelectedNodeName: "idc-1", StorageClass: &storagev1.StorageClass{}}
	var volume *corev1.PersistentVolume
	for range 2 { // a retry finds the directory
		if volume, _, err = p.Provision(t.Context(), options); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(root, "pvc-1")
	if volume.Spec.Local.Path != dir || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("unexpected volume %+v", volume.Spec)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("directory: %v, %v; want mode 777", info, err)
	}
	if !p.ShouldDelete(t.Context(), volume) {
		t.Error("the node's provisioner does not take its own volume")
	}
	other, err := newProvisioner("idc-2", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if other.ShouldDelete(t.Context(), volume) || other.ShouldProvision(t.Context(), options.PVC) {
		t.Error("another node's provisioner takes the volume")
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Delete(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data is still there: %v", err)
	}
	if err := p.Delete(t.Context(), volume); err != nil {
		t.Errorf("deleting again: %v", err)
	}
}

func TestClaimsOfOtherNodesAndBlockVolumesAreRefused(t *testing.T) {
	p, err := newProvisioner("idc-1", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var ignored *controller.IgnoredError
	options := controller.ProvisionOptions{PVName: "pvc-1", PVC: claim("idc-2"), SelectedNodeName: "idc-2", StorageClass: &storagev1.StorageClass{}}
	if _, _, err := p.Provision(t.Context(), options); !errors.As(err, &ignored) {
		t.Errorf("error %v, want an IgnoredError", err)
	}
	block := corev1.PersistentVolumeBlock
	options.PVC, options.SelectedNodeName = claim("idc-1"), "idc-1"
	options.PVC.Spec.VolumeMode = &block
	if _, _, err := p.Provision(t.Context(), options); err == nil {
		t.Error("a block volume was made")
	}
}
