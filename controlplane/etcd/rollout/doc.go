// Package rollout decides which pod of an etcd cluster is deleted next, so that it comes back as its
// StatefulSet wants it. The StatefulSet's own rolling update deletes the last pod that is not up to date
// without a look at the others, and a second change, or a host that is away, then costs the quorum. It is
// pure: package operator reads the state a moment before, takes the step, and calls again.
//
// # What it promises
//
//   - One member is away at a time: who works, or may work unseen, goes only while all others are ready, and
//     etcd itself says that they take part.
//   - A bad change can be taken back: the member that it broke goes first, whatever the others are like.
//   - A member on a host that the host cluster does not hear from is left alone: it may well be running.
//   - A member that works on a cordoned host node stays until the cordon ends, because its new pod might not start. The others go.
//   - The leader goes last, and gives its lead away first, so that members lose nothing that they forward to it.
//   - While the members of the cluster change, no member that works is stopped. One that is broken and out of date
//     is replaced also then.
package rollout
