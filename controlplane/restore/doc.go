// Package restore founds an etcd of a control plane anew: the data etcd with a snapshot or with what one member has left, as a new
// control plane or in place, and the etcd with the events without anything.
//
//	Read               how far a restore in place has come; its record is in the host cluster (record.go)
//	Restorer.InPlace   takes the step that package etcd/rebuild decides on (inplace.go), by what stateOf reads (state.go),
//	                   and after judge has said what is wrong with the request (judge.go)
//	Restorer.Begin     tells members what the first one begins with, and which data must not start again (seed.go)
//	ReadFormerEvents   what is left of a former etcd with events, and FormerEvents.Stop takes it away (events.go)
//
// A reconcile fills in [Facts], and keeps what it gets back: nothing here changes a control plane, its status or its input.
package restore
