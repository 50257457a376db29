// Package servingcertificates approves the requests of kubelets for serving certificates, which
// Kubernetes itself does not. A node may only ask for itself: for its own name, and for addresses that
// its Machine has; never for those of the API server or of Services. It also approves a node's first client certificate,
// which a bootstrap token asks for: for the node of the Machine that the token was made for. What a request deserves is decided by Decide, a pure function; the controller
// gathers what it must know and writes the decision into the tenant.
package servingcertificates
