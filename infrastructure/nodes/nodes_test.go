package nodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestANodeInTheCacheHasWhatIsReadOfIt(t *testing.T) {
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "idc-1"}}
	want.Spec.ProviderID, want.Status.Addresses = "idc://team/host-1/id-1", []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.7"}}
	whole := want.DeepCopy()
	whole.Labels, whole.Status.Images = map[string]string{"a": "b"}, []corev1.ContainerImage{{SizeBytes: 1}}
	got, err := Trim(whole)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%s, %v", diff, err)
	}
	if gone, err := Trim("gone"); err != nil || gone != "gone" {
		t.Errorf("%v, %v", gone, err)
	}
}
