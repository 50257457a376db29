// Package keyrotation takes the steps of rotations of keys, as package rotation decides them.
//
//	Rotator.Next    takes the next steps of all kinds (rotator.go): kinds.go has all that differs between kinds, holders.go looks which
//	                workloads and pods have the keys of a phase
//	SetFiles        has renderings follow the phases (kinds.go)
//	run.addTokens   finds Secrets of the tenant that need the former service account key (formerkey.go)
//	run.addObjects  has API servers write again what the former encryption key encrypted (rewriting.go, package rewriting)
//	addPublishedCAs looks which CAs the tenant publishes to extension API servers, and takes away the former one (publishedcas.go)
//
// A reconcile fills in [Facts], and keeps what it gets back. What takes long, or depends on the tenant, is done by probes beside reconciles.
package keyrotation
