// Package probe asks tenants questions in the background, so that no worker of a controller waits
// for one that does not answer.
//
// A reconcile hands over what it wants to know with Prober.Ask, never waits, and gets the last
// answer. A question is asked at once when it is new, and when the reconcile saw something that may
// change the answer; after that again and again: every Interval while all is well, after a delay that
// doubles from FirstRetry up to Interval while it is not. The object is reconciled when an answer
// differs from the one before: a settled tenant costs no reconcile.
//
// # Many tenants that do not answer
//
// At most Places questions are in their first moments at the same time: that is when they cost
// handshakes and requests. One that is still not answered after Patience only waits for the network.
// It gives its place to the next in line, so that those that hang never hold up those that answer,
// and still has until Timeout: a slow link is not a failure. So no more than
// Places*(1+Timeout/Patience) questions are under way at any time, whatever hangs, and with k
// questions before it a new one is asked after k/Places*Patience at the latest. Places are given in
// the order in which they were asked for.
package probe
