package sparse

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

func TestYAMLHoldsWhatWasSetAlone(t *testing.T) {
	for name, test := range map[string]struct {
		value kubeletv1beta1.KubeletConfiguration
		want  string
	}{
		"nothing": {kubeletv1beta1.KubeletConfiguration{}, "{}\n"},
		"a field, and a pointer to a zero value": {kubeletv1beta1.KubeletConfiguration{
			TypeMeta: metav1.TypeMeta{Kind: "KubeletConfiguration"}, FailSwapOn: ptr.To(false), MaxPods: 5,
		}, "failSwapOn: false\nkind: KubeletConfiguration\nmaxPods: 5\n"},
		"a field in a struct of which the rest is unset": {kubeletv1beta1.KubeletConfiguration{
			Authorization: kubeletv1beta1.KubeletAuthorization{Mode: "Webhook"},
		}, "authorization:\n  mode: Webhook\n"},
	} {
		if got, err := YAML(&test.value, &kubeletv1beta1.KubeletConfiguration{}); err != nil || string(got) != test.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}
