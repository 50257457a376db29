// Package servingcertificates approves the requests of kubelets for serving certificates, which
// Kubernetes itself does not. A node gets a certificate only for itself: for its own name, and for addresses that
// its Machine has; never for those of the API server or of Services. It also approves a node's first client certificate,
// which the node requests with a bootstrap token: only for the node of the Machine that the token was made for. The pure
// functions Decide and DecideFirst decide; the controller gathers what they need and writes the decision into the tenant.
package servingcertificates
