// Package pki keeps a tenant's key material and issues certificates from it.
//
// Key material (certificate authorities, the service account key, the encryption key) is made once
// and kept in two places: Secrets under Cluster API's names in the management cluster, and one
// Secret in the host cluster that pods mount:
// docs/decisions/certificates.md#key-material-in-two-places. Copies that differ are an
// [InvalidError], which says how to go back. When somebody deletes one copy, the next [Store.Ensure] writes it again from the
// other, with the same keys, and nothing restarts. When both are gone while something runs with them, no key is made anew: it
// ends with a [LostError], which says what to restore from a backup.
//
// Leaf certificates are issued anew whenever they are not as wanted, each on its own, and well before they expire.
//
// All keys are ECDSA P-256: making an RSA key takes longer than anything else in the creation of a
// tenant.
package pki
