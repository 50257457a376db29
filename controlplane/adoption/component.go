package adoption

import (
	"context"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
)

// Apply applies the component's rendering.
func (a *Adopter) Apply(ctx context.Context, component components.Component) flow.Result {
	held := a.WhyHeld()
	objects, err := a.Rendering(ctx, component, a.Input, held != "")
	if err != nil {
		return RenderingFailed(err)
	}
	if err := a.noteNotTaken(ctx, component); err != nil {
		return flow.Failed(err)
	}
	if component.Scale != nil {
		component.Scale(a.Input, objects)
	}
	if result := a.ApplyAs(ctx, component.Name, objects); !result.Done() {
		return result
	}
	if result := a.waitWhileHeld(ctx, component, held); !result.Done() {
		return result
	}
	return a.waitForOlderPods(component.Name)
}

// Keep keeps up the newest rendering that is stored of a component. It is for while a step before waits or fails, which may last: an
// upgrade waits for a host that is off for as long as that is away. What runs is repaired all the same, by what is stored of it.
func (a *Adopter) Keep(ctx context.Context, component components.Component) flow.Result {
	if known, err := a.Revisions.Newest(ctx, a.Cluster, component.Name); err != nil || len(known) == 0 {
		return flow.DoneOrFailed(err)
	}
	stored, err := a.Revisions.Kept(ctx, a.Cluster, component.Name)
	if err != nil {
		return flow.Failed(err)
	}
	if component.Scale != nil {
		component.Scale(a.Input, stored)
	}
	return a.ApplyAs(ctx, component.Name, stored)
}
