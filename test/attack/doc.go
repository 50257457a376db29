// Package attack is what the administrator of a tenant, who is root on its worker, tries against the host cluster, its
// managers and other tenants. A Way leads to a Target, such as the proxy of a Node to the loopback of a host node, and
// each pair is a try. Targets are canaries: listeners in the lab's own network that know who connected.
//
// A try that never succeeds proves nothing: each Way is taken to a canary on the attacker's own worker first, and
// each Target is asked from where it may be reached.
package attack
