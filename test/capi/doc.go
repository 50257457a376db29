// Package capi runs Cluster API's own end-to-end specs against the lab, with the templates of this repository: they
// are the contract that every provider is held to. Its specs carry the build tag e2e; docs/capi-specs.md says which
// of Cluster API's specs run, and why others do not.
//
// What a failure left is in folders below out/capi.
package capi
