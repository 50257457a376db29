package addon

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
)

// ConfigHashAnnotation is on pods that read their configuration once, when they start: another one makes new pods.
const ConfigHashAnnotation = "kok.cluster.x-k8s.io/config-hash"

// SetConfigHash gives the pods of a template the hash of their configuration.
func SetConfigHash(template *corev1.PodTemplateSpec, config string) {
	hash := sha256.Sum256([]byte(config))
	template.Annotations = map[string]string{ConfigHashAnnotation: hex.EncodeToString(hash[:8])}
}
