package hostpods

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestACacheKeepsOfAPodWhatReconcilesRead(t *testing.T) {
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Args: []string{"--a"}, Image: "i", Env: []corev1.EnvVar{{Name: "a"}}, VolumeMounts: []corev1.VolumeMount{{Name: "v"}}}
	}
	secret := corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: "s", Items: []corev1.KeyToPath{{Key: "a", Path: "b"}},
	}}}
	projected := corev1.Volume{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}},
		Spec:       corev1.PodSpec{NodeName: "n0", InitContainers: []corev1.Container{container("prepare")}, Containers: []corev1.Container{container("etcd")}, Volumes: []corev1.Volume{{Name: "v"}, secret, projected}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	want := pod.DeepCopy()
	want.ManagedFields = nil
	want.Spec = corev1.PodSpec{NodeName: "n0", InitContainers: []corev1.Container{{Name: "prepare", Args: []string{"--a"}}}, Containers: []corev1.Container{{Name: "etcd", Args: []string{"--a"}}}, Volumes: []corev1.Volume{secret, projected}}
	got, err := Trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("it keeps (+):\n%s", diff)
	}
	if other, err := Trim("a tombstone"); other != "a tombstone" || err != nil {
		t.Errorf("of what is no pod it keeps %v, %v", other, err)
	}
}
