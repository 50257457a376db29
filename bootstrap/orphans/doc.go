// Package orphans deletes Nodes of tenants whose Machine is gone. Cluster API deletes a Machine's Node together with the
// Machine, also when the host has no power and cannot be cleaned up. When such a host is switched on again, kubelet
// registers the Node anew, with a certificate that is still valid, before the host is cleaned up. Nothing else would delete
// that Node. The pure function Orphaned decides which Nodes are orphans.
package orphans
