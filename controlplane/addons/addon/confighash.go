package addon

import (
	"crypto/sha256"
	"encoding/hex"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigHashAnnotation is on pods that read their configuration once, when they start: another one makes new pods.
const ConfigHashAnnotation = "kok.cluster.x-k8s.io/config-hash"

// SetConfigHash gives the pods of an addon the hash of what they read once.
func (a Addon) SetConfigHash(objects []client.Object) {
	if len(a.ReadOnce) == 0 {
		return
	}
	hash := sha256.New()
	for _, file := range a.ReadOnce {
		hash.Write([]byte(Find[*corev1.ConfigMap](objects).Data[file]))
	}
	template := &Find[*appsv1.DaemonSet](objects).Spec.Template
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, ConfigHashAnnotation, hex.EncodeToString(hash.Sum(nil)[:8]))
}
