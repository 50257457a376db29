// Package probe asks tenants questions in the background, so that no worker of a controller waits
// for one that does not answer.
//
// A reconcile hands over what it wants to know with Prober.Ask, never waits, and gets the last
// answer. A question is asked at once when it is new, and when the reconcile saw something that may
// change the answer; after that again and again: every Interval while all is well, after a delay that
// doubles from FirstRetry up to Interval while it is not. The object is reconciled when an answer
// differs from the one before: a settled tenant costs no reconcile. Tenants that hang do not hold up
// others; see package background.
package probe
