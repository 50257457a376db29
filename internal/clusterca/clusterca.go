// Package clusterca says which cluster CAs joining machines trust.
package clusterca

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"
)

// TrustedDataKey is a data key of Cluster API's Secret "<cluster>-ca". While the cluster CA rotates it has the certificates of the former and
// of the new CA, as PEM. A machine that joins meanwhile has to trust both.
const TrustedDataKey = "trusted.crt"

// Trusted are the certificates of the CAs that joining machines trust, as PEM, from Cluster API's Secret "<cluster>-ca".
func Trusted(authority *corev1.Secret) []byte {
	if both := authority.Data[TrustedDataKey]; len(both) > 0 {
		return both
	}
	return authority.Data[secret.TLSCrtDataName]
}
