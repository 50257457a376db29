// Package lead decides which member of an etcd cluster shall lead when the host node of the present leader is
// cordoned, as it is before a drain. A leader that is evicted loses what other members forward to it in that moment,
// and its writers wait in vain for seconds; one that gives its lead away in peace loses next to nothing.
// It is pure: package operator reads the state a moment before, takes the step, and calls again.
//
// # What it promises
//
//   - The lead goes to a voter that works, on a node that takes pods, and never moves without a cordon.
//   - While nodes are drained one after the other, and pods come back to their own nodes, it moves twice at most.
//   - It stays where it is while members or their pods change.
package lead
