// Package orphans deletes Nodes of tenants whose Machine is gone. Cluster API deletes a Machine's Node once its host
// is given back. A host without power cannot be cleaned up, and its Machine is deleted all the same. When the host is
// switched on again, kubelet registers its Node anew with a certificate that is still valid, until the host is cleaned
// up. Nothing else would delete that Node. Orphaned, a pure function, decides which Node is an orphan.
package orphans
