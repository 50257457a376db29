// Package restore founds an etcd of a control plane anew. The data etcd begins with a snapshot or with the data of one member, in a new
// control plane or in place. The etcd with the events begins empty.
//
//	Read               reads how far a restore in place has come, from a record in the host cluster (record.go)
//	Restorer.InPlace   takes the next step (inplace.go): stateOf reads the state (state.go), judge says what is wrong with the
//	                   request (judge.go), and package etcd/rebuild decides on the step
//	Restorer.Begin     tells members what the first one begins with, and which data must not start again (seed.go)
//	Restorer.ReadFormerEvents
//	                   finds what is left of a former etcd with events, and has it founded anew when that may be done without a
//	                   person (automatic.go); FormerEvents.Stop removes what is left (events.go)
//
// A reconcile fills in [Facts], and keeps what it gets back. This package changes neither a control plane nor its status or input.
package restore
