package webhooks

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// Which ConfigMap is the table is tested with an API server.
func TestAConfigMapThatIsNotTheTableIsNotJudged(t *testing.T) {
	w := &VersionsConfigMap{Versions: &supported.Versions{}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: versions.ConfigMapName}}
	if _, err := w.ValidateCreate(t.Context(), other); err != nil {
		t.Error(err)
	}
	if _, err := w.ValidateUpdate(t.Context(), other, other); err != nil {
		t.Error(err)
	}
}
