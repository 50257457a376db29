// Package servingcertificates approves the requests of kubelets for serving certificates, which
// Kubernetes itself does not. A node may only ask for itself: for its own name, and for addresses that
// its Machine has; never for those of the API server or of Services. What a request deserves is decided by Decide, a pure function; the controller
// gathers what it must know and writes the decision into the tenant.
package servingcertificates
