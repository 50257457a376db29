// Package space decides how an etcd that reached its quota takes writes again, one step at a time. Decide is pure: the operator,
// or an agent while the manager is away, reads the state, takes the step, and calls again. Only Rewrites is remembered between
// steps, and may be lost. Why it is so: docs/decisions/etcd.md#a-full-database-gets-room-by-itself.
//
//	Compact, where free pages do not suffice → Defragment, each member that is too large, the leader last → Disarm
//
// If the data in use fill the quota, these steps do not help: a person must delete objects, or raise the quota.
package space
