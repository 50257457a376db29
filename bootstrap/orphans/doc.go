// Package orphans deletes Nodes of tenants whose Machine is gone. Cluster API deletes a Machine's Node once its host
// is given back. A host without power cannot be cleaned: its Machine goes without it, and when it is switched on again
// kubelet registers its Node anew, with a certificate that is still good, until the host is cleaned. Nobody else would
// ever delete that Node. What is an orphan is decided by Orphaned, a pure function.
package orphans
