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
//   - A volume of a member that was removed is deleted before another member gets its name. Package recovery does that for
//     members that it replaces, and says which are [State.Blank].
//   - As many vote as the spec asks for, once they do: a member that is missing before others is added before the last one
//     goes. While the data of a voter is not that of the majority, no other one goes.
//   - API servers know a member only while it votes: they are told of new ones when all have joined, and
//     of those that leave before they do.
package membership
