// Package manager runs the program of one of our managers against a real kube-apiserver and etcd, and counts what it takes. It is for
// benchmarks, which say themselves what they simulate.
package manager
