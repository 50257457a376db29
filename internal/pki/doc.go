// Package pki keeps a tenant's key material and issues certificates from it.
//
// Key material (certificate authorities, the service account key, the encryption key) is made once
// and kept in two places: Secrets in the management cluster, named as Cluster API names them, and
// one Secret in the host cluster that pods mount. A missing copy is restored from the other; what
// is missing in both is made only while nothing runs with it, because data and workers that rely
// on it would be lost. Copies that differ are never reconciled by a guess: that is an
// [InvalidError] that says how to go back.
//
// Leaf certificates are the opposite: they are reissued whenever they are not as wanted, each on
// its own, and well before they expire.
//
// All keys are ECDSA P-256: making an RSA key takes longer than anything else in the creation of a
// tenant.
package pki
