// Package arguments has what descriptions of components say of command line arguments: which belong to the controller,
// because they wire a component to its tenant, and what a person can set in their place.
package arguments

import (
	"fmt"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/arguments"
)

// Reasons that arguments of several components belong to the controller for.
const (
	Listener        = "the controller gives every tenant its own port of a host node; pin the block with hosting.ports"
	Trust           = "the controller sets which certificate authorities of the tenant are trusted"
	Credentials     = "the controller issues and renews the credentials that this component uses"
	ServiceAccounts = "the controller owns the tenant's service account issuer and key"
	ServiceRange    = "set clusterNetwork.services of the Cluster instead"
	LeaderElection  = "replicas of this component must elect a leader by the tenant's own lease"
	Exits           = "the program would print and exit"

	ownCert = "the controller issues and renews the serving certificate"
)

// Owned are arguments that belong to the controller, by name, with why or what to set in their place. A name that ends
// in "*" stands for all that start so.
type Owned = arguments.Owned

// Rules are what a person may say of the arguments of a component.
type Rules struct {
	// Owned belong to the controller.
	Owned Owned
	// Values are what the control plane needs in arguments that a person may set, by name.
	Values map[string]func(value string) error
}

// Reason says whether an argument belongs to the controller, and why or what to set in its place.
func (r Rules) Reason(name string) (reason string, owned bool) { return r.Owned.Reason(name) }

// CheckValue refuses a value of an argument that is not owned, but in which the control plane needs something.
func (r Rules) CheckValue(name, value string) error {
	if check := r.Values[name]; check != nil {
		return check(value)
	}
	return nil
}

// Client are those of a program of Kubernetes that is a client of the API server.
var Client = Owned{
	"authentication-kubeconfig":              Credentials,
	"authentication-skip-lookup":             Trust,
	"authentication-tolerate-lookup-failure": Trust,
	"authorization-always-allow-paths":       "only health checks are open to everyone",
	"authorization-kubeconfig":               Credentials,
	"bind-address":                           Listener,
	"cert-dir":                               ownCert,
	"client-ca-file":                         Trust,
	"help":                                   Exits,
	"kubeconfig":                             Credentials,
	"leader-elect":                           LeaderElection,
	"leader-elect-resource-*":                LeaderElection,
	"master":                                 Credentials,
	"permit-address-sharing":                 Listener,
	"permit-port-sharing":                    Listener,
	"requestheader-*":                        Trust,
	"secure-port":                            Listener,
	"tls-cert-file":                          ownCert,
	"tls-private-key-file":                   ownCert,
	"version":                                Exits,
}

// MustContain wants elements in a value that is a list; otherwise says what would happen.
func MustContain(otherwise string, elements ...string) func(value string) error {
	return func(value string) error {
		for _, element := range elements {
			if !contains(value, element) {
				return fmt.Errorf("must contain %s: %s", element, otherwise)
			}
		}
		return nil
	}
}

// MustNotContain wants no such element in a value that is a list.
func MustNotContain(otherwise, element string) func(value string) error {
	return func(value string) error {
		if contains(value, element) {
			return fmt.Errorf("must not contain %s: %s", element, otherwise)
		}
		return nil
	}
}

func contains(list, element string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(item) == element {
			return true
		}
	}
	return false
}
