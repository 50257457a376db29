// Package arguments knows which command line arguments of a component belong to the controller,
// because they wire the component to its tenant, and what a person can set in their place.
package arguments

import (
	"fmt"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/arguments"
)

const (
	listener        = "the controller gives every tenant its own port of a host node; pin the block with hosting.ports"
	servingCert     = "the controller issues and renews the serving certificate; add names and addresses with kubeAPIServer.certSANs"
	ownCert         = "the controller issues and renews the serving certificate"
	trust           = "the controller sets which certificate authorities of the tenant are trusted"
	credentials     = "the controller issues and renews the credentials that this component uses"
	etcdWiring      = "the controller connects the tenant's API server to the tenant's etcd clusters"
	encryption      = "set encryptionAtRest instead"
	authentication  = "set kubeAPIServer.jwt instead, the list of trusted issuers; anonymous requests reach health checks only"
	authorization   = "the controller sets authorization to Node and RBAC, which joining nodes need"
	serviceAccounts = "the controller owns the tenant's service account issuer and key"
	serviceRange    = "set clusterNetwork.services of the Cluster instead"
	podRange        = "set clusterNetwork.pods of the Cluster instead"
	leaderElection  = "replicas of this component must elect a leader by the tenant's own lease"
	signing         = "the controller sets which certificate authorities of the tenant sign certificates"
	exits           = "the program would print and exit"
	audit           = "kubeAPIServer.audit sets it; remove one of the two"
	shutdown        = "the pod's grace period is made for the value that the controller sets"
)

var apiServer = arguments.Owned{
	"admission-control":                       "it replaces every default; use enable-admission-plugins and disable-admission-plugins instead",
	"advertise-address":                       "an API server advertises the address of the host node it runs on",
	"anonymous-auth":                          authentication,
	"authentication-config":                   authentication,
	"authorization-*":                         authorization,
	"bind-address":                            listener,
	"cert-dir":                                servingCert,
	"client-ca-file":                          trust,
	"egress-selector-config-file":             "the controller sets how the API server reaches nodes, pods and services",
	"enable-bootstrap-token-auth":             "joining nodes need bootstrap tokens",
	"encryption-provider-config*":             encryption,
	"endpoint-reconciler-type":                "workers find the API servers by the endpoints that it writes",
	"etcd-cafile":                             etcdWiring,
	"etcd-certfile":                           etcdWiring,
	"etcd-keyfile":                            etcdWiring,
	"etcd-prefix":                             etcdWiring,
	"etcd-servers*":                           etcdWiring,
	"help":                                    exits,
	"kubelet-client-*":                        credentials,
	"oidc-*":                                  authentication,
	"permit-address-sharing":                  listener,
	"permit-port-sharing":                     listener,
	"proxy-client-*":                          credentials,
	"requestheader-*":                         trust,
	"secure-port":                             listener,
	"service-account-issuer":                  serviceAccounts,
	"service-account-jwks-uri":                serviceAccounts,
	"service-account-key-file":                serviceAccounts,
	"service-account-signing-*":               serviceAccounts,
	"service-cluster-ip-range":                serviceRange,
	"shutdown-delay-duration":                 shutdown,
	"shutdown-watch-termination-grace-period": shutdown,
	"storage-backend":                         etcdWiring,
	"tls-cert-file":                           servingCert,
	"tls-private-key-file":                    servingCert,
	"version":                                 exits,
}

// client are the arguments of a component that is a client of the API server.
var client = arguments.Owned{
	"authentication-kubeconfig":              credentials,
	"authentication-skip-lookup":             trust,
	"authentication-tolerate-lookup-failure": trust,
	"authorization-always-allow-paths":       "only health checks are open to everyone",
	"authorization-kubeconfig":               credentials,
	"bind-address":                           listener,
	"cert-dir":                               ownCert,
	"client-ca-file":                         trust,
	"help":                                   exits,
	"kubeconfig":                             credentials,
	"leader-elect":                           leaderElection,
	"leader-elect-resource-*":                leaderElection,
	"master":                                 credentials,
	"permit-address-sharing":                 listener,
	"permit-port-sharing":                    listener,
	"requestheader-*":                        trust,
	"secure-port":                            listener,
	"tls-cert-file":                          ownCert,
	"tls-private-key-file":                   ownCert,
	"version":                                exits,
}

var controllerManager = client.With(arguments.Owned{
	"allocate-node-cidrs":                     podRange,
	"cidr-allocator-type":                     podRange,
	"cluster-cidr":                            podRange,
	"cluster-name":                            "it is the name of the Cluster",
	"cluster-signing-cert-file":               signing,
	"cluster-signing-key-file":                signing,
	"cluster-signing-kube-apiserver-client-*": signing,
	"cluster-signing-kubelet-client-*":        signing,
	"cluster-signing-kubelet-serving-*":       signing,
	"cluster-signing-legacy-unknown-*":        signing,
	"root-ca-file":                            trust,
	"service-account-private-key-file":        serviceAccounts,
	"service-cluster-ip-range":                serviceRange,
	"use-service-account-credentials":         "every controller acts with its own service account and rights",
})

var byComponent = map[string]arguments.Owned{
	names.KubeAPIServer:         apiServer,
	names.KubeControllerManager: controllerManager,
	names.KubeScheduler: client.With(arguments.Owned{
		"config":          "with a configuration file kube-scheduler ignores kubeconfig, its credentials, and leader-elect; what the file can say of scheduling cannot be set yet",
		"write-config-to": exits,
	}),
}

// Owned says whether an argument of a component (names.KubeAPIServer, ...) belongs to the controller,
// and why or what to set in its place.
func Owned(component, name string) (reason string, owned bool) {
	return byComponent[component].Reason(name)
}

// OwnedByAudit says the same of the API server's arguments once spec.kubeAPIServer.audit is set. A
// webhook that receives audit events can be given in any case.
func OwnedByAudit(name string) (reason string, owned bool) {
	return arguments.Owned{"audit-log-*": audit, "audit-policy-file": audit}.Reason(name)
}

// CheckValue refuses a value of an argument that is not owned, but in which the control plane needs
// something.
func CheckValue(component, name, value string) error {
	switch component + "/" + name {
	case names.KubeAPIServer + "/enable-admission-plugins":
		return mustContain(value, "without it a node could change other nodes", "NodeRestriction")
	case names.KubeAPIServer + "/disable-admission-plugins":
		if contains(value, "NodeRestriction") {
			return fmt.Errorf("must not contain NodeRestriction: without it a node could change other nodes")
		}
	case names.KubeControllerManager + "/controllers":
		return mustContain(value, "nodes could not join", "bootstrapsigner", "tokencleaner")
	}
	return nil
}

func mustContain(list, otherwise string, elements ...string) error {
	for _, element := range elements {
		if !contains(list, element) {
			return fmt.Errorf("must contain %s: %s", element, otherwise)
		}
	}
	return nil
}

func contains(list, element string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(item) == element {
			return true
		}
	}
	return false
}
