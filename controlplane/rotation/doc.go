// Package rotation decides how far the rotation of a kind of key has come, and what it waits for. It is pure: the controller reads
// the state, takes the step, and calls again (controllers/keyrotation.go). Why it is so:
// docs/decisions/certificates.md#keys-rotate-in-two-phases.
//
// # The order
//
//	prepare    Trusting → Using → Prepared
//	complete   Dropping → Over
//	back       Dropping → Using, where something is found that would be lost without the former key
//
//	phase     the keys that pods have                        goes on when
//	Trusting  both are trusted, the former one is in use     every pod trusts both
//	Using     both are trusted, the new one is in use        every pod uses the new one
//	Prepared  the same                                       a person asks for it, and nothing that can be seen needs the former
//	                                                         key, or a person has given up what does
//	Dropping  the new one alone                              no pod has the former one, and nothing would be lost without it
//	Over      the new one alone, also in stored key material a person asks for another rotation
//
// # What it promises
//
//   - No pod uses the new key before every pod trusts it: what one API server signs, all others accept.
//   - Until a person asks for the end, what was made with the former key is good. What can be seen to need it is named before, and
//     each name is given up by itself. What would be lost for ever cannot be given up.
//   - Kinds that are asked for by the same time leave a phase together, so that API servers restart once for all of them. A kind that
//     a person takes out of the request does not hold up the end of the others.
//   - The former key leaves the store last, when no pod reads it any more.
//   - A time asks for one rotation. Another one needs a later time, and begins when the one before is over.
//   - Phases go in one direction, but for the one way back from Dropping: what API servers cannot read any more they have to read
//     again before it can be written by the new key. The end follows by the same request. Other kinds go on meanwhile: the way back
//     changes neither what their pods trust nor which key signs.
//   - Taking the request away stops nothing: prepared keys stay so until a person asks for more.
//
// # What is recorded
//
// The [Record] is in both copies of the key material, beside the new key, so that it outlives the status, the manager and a move of
// the Cluster. It is written before the step that it is about, and each step can be taken again.
//
// What was seen to need the former key is not recorded: it is looked for again before each decision that depends on it.
//
// A further kind has the same phases. What differs is what trusts and uses it, and what needs the former key. Of a CA, what uses it are the
// leaves that it signs (pki.KeyMaterial.BySigning), and among what trusts it may be a ConfigMap of the tenant, which is waited for as pods
// are. What trusts and uses a CA of etcd are its members, which the etcd operator replaces one by one, API servers, and the clients of the
// manager (pki.KeyMaterial.ClientTLS), which follow the phase without a restart.
package rotation
