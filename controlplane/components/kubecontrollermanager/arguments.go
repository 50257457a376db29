package kubecontrollermanager

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/arguments"
)

// Reasons that arguments belong to the controller for.
const (
	podRange = "set clusterNetwork.pods of the Cluster instead"
	signing  = "the controller sets which certificate authorities of the tenant sign certificates"
)

// rules are those of its arguments.
var rules = arguments.Rules{
	Owned: arguments.Client.With(arguments.Owned{
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
		"root-ca-file":                            arguments.Trust,
		"service-account-private-key-file":        arguments.ServiceAccounts,
		"service-cluster-ip-range":                arguments.ServiceRange,
		"use-service-account-credentials":         "every controller acts with its own service account and rights",
	}),
	Values: map[string]func(string) error{
		"controllers": arguments.MustContain("nodes could not join", "bootstrapsigner", "tokencleaner"),
	},
}
