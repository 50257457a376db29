// Package rotation decides how far the rotation of a kind of key has come, and what it waits for. It is pure: package keyrotation
// reads the state, takes the step, and calls again. Why it is so:
// docs/decisions/certificates.md#keys-rotate-in-two-phases.
//
// # The order
//
//	prepare    Trusting → Using → Prepared
//	complete   Dropping → Over
//	back       Dropping → Using, where something is found that would be lost without the former key
//
//	phase     the keys that pods have                         goes on when
//	Trusting  both are trusted, the former one is in use      every pod trusts both
//	Using     both are trusted, the new one is in use         every pod uses the new one
//	Prepared  the same                                        a person asks for it, and nothing that can be seen needs the former
//	                                                          key, or a person has given up what does
//	Dropping  the new one alone                               no pod has the former one, and nothing would be lost without it
//	Over      the new one alone, also in stored key material  a person asks for another rotation
//
// # What it promises
//
//   - No pod uses the new key before every pod trusts it: what one API server signs, all others accept.
//   - Until a person asks for the end, what was made with the former key is good. The manager names what it sees to need that key, and a
//     person gives up each name by itself. Nobody can give up what would be lost for ever.
//   - Kinds that are asked for by the same time leave a phase together, so that API servers restart once for all of them. A kind that
//     a person takes out of the request does not hold up the end of the others.
//   - The former key leaves the store last, when no pod reads it any more.
//   - A time asks for one rotation. Another one needs a later time, and begins when the one before is over.
//   - Phases go in one direction, with one exception: Dropping may go back to Using, because API servers have to read an object before they
//     can write it by the new key. The end then follows by the same request. Other kinds go on meanwhile: the way back changes neither what
//     their pods trust nor which key signs.
//   - Taking the request away stops nothing: prepared keys stay so until a person asks for more.
//
// # What is recorded
//
// The [Record] is in both copies of the key material, beside the new key, so that it outlives the status, the manager and a move of
// the Cluster. It has the end of the rotation, too: with spec.etcd.backup a snapshot follows that (package backups). Package keyrotation writes it before it takes a step, and can take each step again.
//
// What needs the former key is not recorded: package keyrotation looks for it again before each decision that depends on it.
//
// # Kinds
//
// Every kind has the same phases. Kinds differ in what trusts and uses the key, and in what needs the former one. The leaves of a CA say
// which CA signed them (certificates.BySigning). Where the tenant publishes a CA in a ConfigMap, package keyrotation waits for it as for
// a pod. Members of etcd trust and use their CA, and the etcd operator replaces them one by one. The manager's own clients follow the phase
// of a CA without a restart (certificates.Issuer.ClientTLS).
package rotation
