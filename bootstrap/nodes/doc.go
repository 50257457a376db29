// Package nodes keeps the Nodes of tenants in step with Machines.
//
// It deletes Nodes whose Machine is gone. Cluster API deletes a Machine's Node together with the Machine, also when the host has
// no power and cannot be cleaned up. When such a host is switched on again, kubelet registers the Node anew, with a certificate that
// is still valid, before the host is cleaned up. Nothing else would delete that Node. The pure function Orphaned decides which
// Nodes are orphans.
//
// It makes Nodes anew that Machines have lost: those of machines that joined after the snapshot with which etcd began again.
// Kubelet registers its Node only when it starts. The pure functions Lost and Anew decide which Nodes are made, and what they have.
package nodes
