// Package probe probes tenants in the background, so that no worker of a controller waits for one that does not answer.
//
// A reconcile hands over a probe with Prober.Probe, never waits, and gets the last result. A probe runs at once when it is
// new, and when the reconcile saw something that may change the result; after that again and again: every Interval while
// all is well, after a delay that doubles from FirstRetry up to Interval while it is not. The object is reconciled when a
// result differs from the one before: a settled tenant costs no reconcile. Tenants that hang do not hold up others; see
// package background.
package probe
