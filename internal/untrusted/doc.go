// Package untrusted has the rules for API servers that are not the manager's own, and for kubeconfigs that lead to
// them: those of host clusters and of tenants. A kubeconfig reads no file and runs no program, what an API server
// quotes of credentials does not come back, and redirects to other servers are not followed.
package untrusted
