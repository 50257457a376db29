// Package history decides which revisions of the spec of a KOKControlPlane are kept: docs/decisions/rendering.md#spec-has-a-history.
// A revision has the spec, what changed, who changed it and a JSON patch that takes it back. Everything here is pure but List and a [Keeper],
// which makes and deletes revisions as Decide says.
//
// A number is given once, and it is in the name: who has an old list fails to make a revision instead of making it twice. The
// present spec is recorded when it differs from that of the newest revision, so that a settled control plane costs no write.
// Where no revision is left, as after a move, stored renderings tell how far the numbers had come.
//
// Three kinds of fields are apart:
//
//	endpoint, port block   the manager writes them, and nobody changes them: they are in no revision
//	replicas               autoscalers write it: it is in no revision
//	restore, givenUp,      each asks for something that is done once: a change of them is recorded, and nothing takes
//	foundAnewAt,           them back
//	rollout,
//	keyRotation
package history
