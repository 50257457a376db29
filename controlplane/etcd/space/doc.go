// Package space decides how an etcd that reached its quota takes writes again, one step at a time. It is pure: package
// operator reads the state a moment before, takes the step, and calls again. It remembers only which files
// were written anew within the last hour, so that it may be killed between any two steps. Why it is so: docs/decisions/etcd.md#a-full-database-gets-room-by-itself.
//
//	Compact, where free pages do not suffice → Defragment, each member that is too large, the leader last → Disarm
//
// What is full of data that is in use cannot be helped so: then a person must delete objects, or give it more.
package space
