// Package rendering knows all components and addons of a control plane, and renders what can be rendered
// of a spec without a cluster, to learn before whether its patches apply.
package rendering

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
)

// Components are the components of every control plane.
var Components = []components.Component{
	etcd.Data.Render(), etcd.Events.Render(), kubeapiserver.Component, kubecontrollermanager.Component, kubescheduler.Component,
}
