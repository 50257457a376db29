// Package pki keeps a tenant's key material. Package certificates issues what is made from it.
//
// Key material (certificate authorities, the service account key, the encryption key) is made once
// and kept in two places: Secrets under Cluster API's names in the management cluster, and one
// Secret in the host cluster that pods mount:
// docs/decisions/certificates.md#key-material-in-two-places. Copies that differ are an
// [InvalidError], which says how to go back.
//
// # When a copy is deleted
//
// The controller watches the Secrets that it made, in the management cluster and in other host clusters (watches/kinds.go,
// controllers/setup.go). Watches do not see Secrets that a person made: it notices after about a minute that one is gone (settledInterval of
// controllers/controller.go). The step key-material calls [Store.Ensure] (controllers/keymaterial.go). It writes the copy again
// from the other, with the same keys (decide.go), and nothing restarts: Event KeyMaterialRestored. When both are gone and something
// uses them, or the tenant was initialized once (keysUsedBy), no key is made anew: it ends with a [LostError], which is the reason (keyrotation.Failed)
// KeyMaterialLost of CertificatesAvailable and says what to restore from a backup. Available is False meanwhile, although API servers
// answer. What runs goes on, and is kept as it was stored; no certificate is renewed. When nothing uses them yet, keys are made anew.
//
// # When a key rotates
//
// Package rotation has the phases. [Store.Rotate] writes each of them, with the new key, into the host cluster's copy, and Ensure brings
// all else to it (rotation.go): the copy of it in the management cluster, and files of their own name for pods. Cluster API's Secret
// and the data keys without such a name have the former key until the rotation is over, then the new one. A copy that is lost
// comes back as it is in the phase.
//
// Of a CA, the phase also says which CAs sign certificates and which are trusted (signing.go).
package pki
