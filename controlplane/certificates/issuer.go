package certificates

import (
	"k8s.io/utils/clock"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// Issuer issues the certificates of one tenant.
type Issuer struct {
	// Keys have the tenant's CAs, and say which of them sign while one rotates.
	Keys *pki.KeyMaterial
	// Clock gives the time for checks of validity and for new certificates.
	Clock clock.PassiveClock
}
