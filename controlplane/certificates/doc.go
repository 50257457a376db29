// Package certificates issues certificates of a tenant from its key material: the leaf certificates that its components mount
// ([Issuer.EnsureLeaves]), the kubeconfig of Cluster API's contract ([Issuer.EnsureKubeconfig]), and the client certificates of the
// manager itself, which never leave its memory ([Issuer.ClientTLS], [Issuer.RESTConfig]).
//
// Certificates can be made again at any time, unlike the keys of package pki. A leaf is issued anew whenever it is not as wanted, each on
// its own, and well before it expires.
//
// # When a CA rotates
//
// A leaf of a CA that rotates has the CA that issues it in its name ([BySigning]). It is issued by this CA or not at all. The manager's own
// clients show a leaf by the CA that is in use, and trust the CAs of the phase (client.go).
package certificates
