package controllers

import (
	"context"
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/metrics"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// graph is the order in which a control plane is made. What does not depend on each other runs
// together. While one waits or fails, those after it adopt nothing new, and keep up what is stored of them.
func (r *Reconciler) graph() *flow.Graph[*scope] { return flow.New(metrics.ObserveStep, r.order()...) }

// order are the steps of the graph. Those of components are in the order of the registry: both etcds, kube-apiserver, then
// what talks to that.
func (r *Reconciler) order() []flow.Step[*scope] {
	steps := []flow.Step[*scope]{
		// Where a change of spec cannot be recorded, no component adopts it, and all else goes on.
		{Name: names.StepHistory, Run: r.recordSpec},
		{Name: names.StepKeyMaterial, Run: r.ensureKeyMaterial},
		// Key material tells whether anything was ever made in a host cluster: it is made before all else.
		{Name: names.StepVersion, After: []string{names.StepKeyMaterial}, Run: r.chooseVersion},
		{Name: names.StepPorts, After: []string{names.StepVersion}, Run: r.claimPorts, Keep: keepHosted(r.claimPorts)},
		{Name: names.StepEndpoint, After: []string{names.StepPorts}, Run: r.applyServices, Keep: r.keepServices},
		{Name: names.StepRestore, After: []string{names.StepKeyMaterial, names.StepEndpoint}, Run: r.restoreInPlace},
		{Name: names.StepBackup, After: []string{names.StepRestore}, Run: r.ensureBackup, Keep: r.keepBackup},
		{Name: names.StepCertificates, After: []string{names.StepKeyMaterial, names.StepEndpoint}, Run: r.ensureCertificates},
		{Name: names.StepKubeconfig, After: []string{names.StepKeyMaterial, names.StepEndpoint}, Run: r.ensureKubeconfig},
	}
	for _, component := range registry.Components {
		steps = append(steps, r.componentStep(component))
	}
	return append(steps,
		flow.Step[*scope]{Name: names.StepLoadBalancer, After: registry.Components.ServingAPI(), Run: r.ensureLoadBalancer, Keep: r.keepLoadBalancer},
		flow.Step[*scope]{Name: names.StepTenantObjects, After: append(registry.Components.ServingAPI(), names.StepKubeconfig), Run: r.applyTenantObjects},
		flow.Step[*scope]{Name: names.StepAddons, After: []string{names.StepTenantObjects}, Run: r.applyAddons},
	)
}

// componentStep applies a component after those that its description names. Etcd's members are applied with care of
// their own.
func (r *Reconciler) componentStep(component components.Component) flow.Step[*scope] {
	step := flow.Step[*scope]{
		Name: component.Name, After: component.After, Run: applyComponent(component), Keep: keepComponent(component),
	}
	if len(step.After) == 0 {
		step.After = []string{names.StepHistory, names.StepCertificates}
	}
	for _, cluster := range etcdcomponent.All {
		if cluster.Component == component.Name {
			step.Run, step.Keep = r.applyEtcd(cluster), r.keepEtcd(cluster)
			step.After = append(slices.Clone(step.After), names.StepBackup)
		}
	}
	step.Run, step.Keep = ifPresent(component, step.Run), ifPresent(component, step.Keep)
	return step
}

// ifPresent does nothing for a control plane that goes without a component.
func ifPresent(component components.Component, run func(context.Context, *scope) flow.Result) func(context.Context, *scope) flow.Result {
	return func(ctx context.Context, s *scope) flow.Result {
		if !component.IsOf(&s.controlPlane.Spec) {
			return flow.Done()
		}
		return run(ctx, s)
	}
}
