package giveaway

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnlyAMarkedSecretIsGivenAway(t *testing.T) {
	for name, test := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"without labels":      {nil, false},
		"with another label":  {map[string]string{"a": "true"}, false},
		"with the label":      {map[string]string{Label: "true"}, true},
		"with the label's no": {map[string]string{Label: "false"}, false},
		"with an empty label": {map[string]string{Label: ""}, false},
	} {
		refused := Refused(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "mirror", Labels: test.labels}})
		if (refused == "") != test.want || refused != "" && !strings.HasSuffix(refused, ": kubectl -n team label secret mirror kok.cluster.x-k8s.io/for-tenants=true") {
			t.Errorf("%s: %q", name, refused)
		}
	}
}
