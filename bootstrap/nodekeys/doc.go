// Package nodekeys holds what brings the nodes of a tenant through a rotation of the cluster CA. The program kok-node-keys runs on each
// node, in a pod of a DaemonSet that is there only while the CA rotates. It reads from files what is wanted (package
// internal/nodekeys/wanted): the CAs that the node has to trust, and the CA that has to have signed kubelet's certificates. It makes the
// node so, and its pod becomes ready.
//
// It drains nothing and restarts no container. Kubelet reads some of the files only when it starts (sources of Kubernetes v1.34 to v1.36):
//
//	file                                    read by             again
//	kubelet's clientCAFile                  kubelet             when it changes (dynamiccertificates)
//	certificateAuthorityFile of             kok-apiserver-lb    by probes for each connection, by its watch
//	/etc/kok-apiserver-lb/config.yaml                           within five minutes (client-go)
//	kubelet.conf and the CA file it names   kubelet             when it starts: it makes its transport by itself
//	bootstrap-kubelet.conf                  kubelet             when it starts without a valid certificate
//	kubelet-client-current.pem              kubelet             when it starts, or when it wrote it itself
//	kubelet-server-current.pem              kubelet             when it starts, or when it wrote it itself
//
// So kubelet is restarted once in each phase that changes a file of the last kinds: it gets SIGTERM, and its service manager starts
// it again.
//
// A node takes no step back. What is wanted has an order: the time for which the rotation was asked, and the number of its step.
// Before the program changes anything for a goal, it writes the goal's order into a file beside kubelet's certificates. It refuses an earlier
// goal, which a restore of etcd brings back with its DaemonSet. A node that joined later has no such file. There the program refuses a goal
// whose first CA, that from before the rotation, the node does not trust
// (docs/decisions/certificates.md#the-cluster-ca-is-shown-late-and-nodes-follow-by-a-daemonset).
//
// What is decided is apart from what is done: Decide of package node is pure. Each step may be killed anywhere, and is done again.
package nodekeys
