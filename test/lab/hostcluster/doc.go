// Package hostcluster brings up the lab's host cluster on booted hosts: a certificate authority, etcd and the
// Kubernetes control plane as systemd services of the first cloud host, kubelet and kube-proxy on every host, pod
// networks with routes, local persistent volumes and cert-manager.
//
// All of it is the real software with real TLS. [Bring] compares what should be with what is there, so it can be
// interrupted and repeated at any time, and a repeated run restarts only services whose configuration changed.
//
// No manifest, flag or configuration depends on the Kubernetes version: the programs alone do. [UpgradeControlPlane] and
// [UpgradeNode] replace them as an administrator does, nodes by kubectl cordon, drain and uncordon.
package hostcluster
