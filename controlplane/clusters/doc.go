// Package clusters says what the control plane needs of the Cluster that it belongs to: a name that
// the names of its objects can start with, and a network that works. The rules are pure, so that the
// webhook refuses with the same words that a condition uses for a Cluster that was there before.
package clusters
