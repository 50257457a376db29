package kubeapiserver

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/arguments"
)

// Reasons that arguments belong to the controller for.
const (
	servingCert    = "the controller issues and renews the serving certificate; add names and addresses with kubeAPIServer.certSANs"
	etcdWiring     = "the controller connects the tenant's API server to the tenant's etcd clusters"
	encryption     = "set encryptionAtRest instead"
	authentication = "set kubeAPIServer.jwt instead, the list of trusted issuers; anonymous requests reach health checks only"
	authorization  = "the controller sets authorization to Node and RBAC, which joining nodes need"
	auditArgs      = "kubeAPIServer.audit sets it; remove one of the two"
	shutdown       = "the pod's grace period is made for the value that the controller sets"
)

// rules are those of its arguments.
var rules = arguments.Rules{
	Owned: owned,
	Values: map[string]func(string) error{
		"enable-admission-plugins":  arguments.MustContain(openNodes, "NodeRestriction"),
		"disable-admission-plugins": arguments.MustNotContain(openNodes, "NodeRestriction"),
	},
}

const openNodes = "without it a node could change other nodes"

var owned = arguments.Owned{
	"admission-control":                       "it replaces every default; use enable-admission-plugins and disable-admission-plugins instead",
	"advertise-address":                       "an API server advertises the address of the host node it runs on",
	"anonymous-auth":                          authentication,
	"authentication-config":                   authentication,
	"authorization-*":                         authorization,
	"bind-address":                            arguments.Listener,
	"cert-dir":                                servingCert,
	"client-ca-file":                          arguments.Trust,
	"egress-selector-config-file":             "the controller sets how the API server reaches nodes, pods and services",
	"enable-bootstrap-token-auth":             "joining nodes need bootstrap tokens",
	"encryption-provider-config*":             encryption,
	"endpoint-reconciler-type":                "workers find the API servers by the endpoints that it writes",
	"etcd-cafile":                             etcdWiring,
	"etcd-certfile":                           etcdWiring,
	"etcd-keyfile":                            etcdWiring,
	"etcd-prefix":                             etcdWiring,
	"etcd-servers*":                           etcdWiring,
	"help":                                    arguments.Exits,
	"kubelet-client-*":                        arguments.Credentials,
	"oidc-*":                                  authentication,
	"permit-address-sharing":                  arguments.Listener,
	"permit-port-sharing":                     arguments.Listener,
	"proxy-client-*":                          arguments.Credentials,
	"requestheader-*":                         arguments.Trust,
	"secure-port":                             arguments.Listener,
	"service-account-issuer":                  arguments.ServiceAccounts,
	"service-account-jwks-uri":                arguments.ServiceAccounts,
	"service-account-key-file":                arguments.ServiceAccounts,
	"service-account-signing-*":               arguments.ServiceAccounts,
	"service-cluster-ip-range":                arguments.ServiceRange,
	"shutdown-delay-duration":                 shutdown,
	"shutdown-watch-termination-grace-period": shutdown,
	"storage-backend":                         etcdWiring,
	"tls-cert-file":                           servingCert,
	"tls-private-key-file":                    servingCert,
	"version":                                 arguments.Exits,
}

// OwnedByAudit says whether an argument belongs to the controller once spec.kubeAPIServer.audit is set, and why. A
// webhook that receives audit events can be given in any case.
func OwnedByAudit(name string) (reason string, owned bool) {
	return arguments.Owned{"audit-log-*": auditArgs, "audit-policy-file": auditArgs}.Reason(name)
}
