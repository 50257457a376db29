// Package membership decides how an etcd cluster gets from the members that it has to the desired
// members, one step at a time. It is pure: package operator reads the state a moment before, takes the
// step, and calls again. Nothing is remembered, so that the operator may be killed between any two steps.
//
// # What it promises
//
//   - A member joins as a learner, which does not vote, and is promoted when it has all data.
//   - A voter is added or removed only while all that stay answer: the quorum is never at risk.
//   - A member whose volume is lost cannot vote for what it has forgotten: before one is promoted, its
//     configuration file no longer lets it start without data.
//   - A volume of a member that was removed is deleted before another member gets its name.
//   - API servers know a member only while it votes: they are told of new ones when all have joined, and
//     of those that leave before they do.
package membership
