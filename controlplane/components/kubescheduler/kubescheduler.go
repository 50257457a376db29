// Package kubescheduler describes and renders kube-scheduler.
package kubescheduler

import (
	_ "embed"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/arguments"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

//go:embed deployment.yaml
var deployment []byte

// HTTPS is where it serves its metrics and health.
var HTTPS = ports.Port{Name: "https", Offset: 8, Usual: 10259}

// Component describes kube-scheduler.
var Component = components.Replicated{
	Name:  names.KubeScheduler,
	Field: "kubeScheduler",
	Spec: func(spec *controlplanev1.KOKControlPlaneSpec) *controlplanev1.ReplicatedComponentSpec {
		return &spec.KubeScheduler
	},
	Port:      HTTPS,
	Asset:     deployment,
	Arguments: rules,
}.Component()

// rules are those of its arguments.
var rules = arguments.Rules{Owned: arguments.Client.With(arguments.Owned{
	"config":          "with a configuration file kube-scheduler ignores kubeconfig, its credentials, and leader-elect; what the file can say of scheduling cannot be set yet",
	"write-config-to": arguments.Exits,
})}
