// Package previousrelease builds the release before this one from this repository's own history, so that tests can
// upgrade from it.
//
// The file commit pins it: a commit of main that is at least one issue old. Another pin is that line and nothing else;
// take one that is on main, and whose manager is another program than today's, or an upgrade from it shows nothing.
//
// Checkout makes a git worktree of the pinned commit, and Tree builds managers and release manifests of any tree with
// the tree's own Makefile and hack/release. Releases of several trees can share one clusterctl repository: each has a
// version and an image tag of its own.
//
// A shallow clone may lack the commit: git fetch --unshallow.
package previousrelease
