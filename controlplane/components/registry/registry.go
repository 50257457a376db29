// Package registry has the list of the components of a control plane. A new one is a folder beside this one, its name in
// package names, and a line here; what everything else needs of a component follows from its description. CONTRIBUTING.md, "A new
// component", has what it may need beside that: rights in the tenant, the API, tests and documents.
package registry

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
)

// Components are those of every control plane, in the order in which they are applied and told of.
var Components = components.List{
	etcd.Data.AsComponent(),
	etcd.Events.AsComponent(),
	kubeapiserver.Component,
	kubecontrollermanager.Component,
	kubescheduler.Component,
}
