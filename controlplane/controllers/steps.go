package controllers

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Steps of a reconcile besides the components, which are steps of their own names.
const (
	stepKeyMaterial   = "key-material"
	stepVersion       = "version"
	stepPorts         = "ports"
	stepEndpoint      = "endpoint"
	stepCertificates  = "certificates"
	stepKubeconfig    = "kubeconfig"
	stepLoadBalancer  = "load-balancer"
	stepTenantObjects = "tenant-objects"
	stepAddons        = "addons"
)

// graph is the order in which a control plane is made. What does not depend on each other runs
// together. While one waits or fails, those after it adopt nothing new, and keep up what is stored of them.
func (r *Reconciler) graph() *flow.Graph[*scope] { return flow.New(observeStep, r.order()...) }

// order are the steps of the graph. Those of components are in the order of the registry: both etcds, kube-apiserver, then
// what talks to that.
func (r *Reconciler) order() []flow.Step[*scope] {
	steps := []flow.Step[*scope]{
		{Name: stepKeyMaterial, Run: r.ensureKeyMaterial},
		// Key material tells whether anything was ever made in a host cluster: it is made before all else.
		{Name: stepVersion, After: []string{stepKeyMaterial}, Run: r.chooseVersion},
		{Name: stepPorts, After: []string{stepVersion}, Run: r.claimPorts, Keep: keepHosted(r.claimPorts)},
		{Name: stepEndpoint, After: []string{stepPorts}, Run: r.applyServices, Keep: r.keepServices},
		{Name: stepCertificates, After: []string{stepKeyMaterial, stepEndpoint}, Run: r.ensureCertificates},
		{Name: stepKubeconfig, After: []string{stepKeyMaterial, stepEndpoint}, Run: r.ensureKubeconfig},
	}
	for _, component := range registry.Components {
		steps = append(steps, r.componentStep(component))
	}
	return append(steps,
		flow.Step[*scope]{Name: stepLoadBalancer, After: []string{names.KubeAPIServer}, Run: r.ensureLoadBalancer, Keep: r.keepLoadBalancer},
		flow.Step[*scope]{Name: stepTenantObjects, After: []string{names.KubeAPIServer, stepKubeconfig}, Run: r.applyTenantObjects},
		flow.Step[*scope]{Name: stepAddons, After: []string{stepTenantObjects}, Run: r.applyAddons},
	)
}

// componentStep applies a component after those that its description names. Etcd's members are applied with care of
// their own.
func (r *Reconciler) componentStep(component components.Component) flow.Step[*scope] {
	step := flow.Step[*scope]{
		Name: component.Name, After: component.After, Run: applyComponent(component), Keep: keepComponent(component),
	}
	if len(step.After) == 0 {
		step.After = []string{stepCertificates}
	}
	for _, cluster := range etcdClusters {
		if cluster.Component == component.Name {
			step.Run, step.Keep = r.applyEtcd(cluster), r.keepEtcd(cluster)
		}
	}
	return step
}
