// Package recovery decides how an etcd cluster replaces a member that lost its data or its host node, one step at a time.
// It is pure: package operator reads the state a moment before, takes the step, and calls again. Nothing is remembered, so
// that the operator may be killed between any two steps. Why it is so:
// docs/decisions/etcd.md#a-lost-member-is-replaced-while-all-others-work and what follows there.
//
// # A replacement
//
//	Begin → MoveLeader, if it leads → Remove → DeleteClaim → DeletePod → the StatefulSet makes both anew, blank
//	→ package membership adds the member as a learner, and promotes it
//
// # What it promises
//
//   - No step is taken unless all other voters work. When a voter is removed at least two stay, so that they are a majority
//     and the last copy of the data stays.
//   - A member that only is not heard from is never replaced: it may be running.
//   - While pods are rolled out a voter is replaced only when its host node or its volume is gone: a bad change must not cost a
//     member its data.
//   - The last verified snapshots are not deleted with the member on whose own volume they are, unless the host node of that volume is
//     gone. A member that cannot start elsewhere without deleting them waits.
//   - After two tries that failed a person is asked. A cluster with one member is left alone, and so is one without a quorum.
//   - What is left of a removed member never starts: its volume is gone before membership adds the member again.
//   - A learner does not wait for kubelet's back-off. The StatefulSet has a pod for each ordinal below the last listed member, so that a pod
//     may come before etcd lists its member. Etcd fails in that pod, and kubelet waits longer and longer. Once etcd lists the member and its
//     file lets it join, the operator deletes the pod, once.
//
// # The order of deciders
//
// Recovery comes first, then membership, space, rollout and lead. A step of recovery is the only one of its run. When it waits or
// asks a person, membership goes on: it promotes learners, and it waits by itself for voters that do not answer. Recovery
// removes a member and what is left of it; adding it again is membership's alone, which must be told [State.Blank]: pods and
// volumes that wait for that.
//
// # What is recorded
//
// That a replacement has begun is the one fact that neither etcd nor pods tell. [Begin] writes it into [Annotation] of the
// member's Service. The Service outlives the member's pod, its volume, the StatefulSet and the manager, stays where it is
// when the Cluster moves, and goes when the member is scaled away. The record names the removed member by its ID and the
// volume by its UID, so that no later member and no later volume is taken for the old one.
package recovery
