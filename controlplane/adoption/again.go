package adoption

import (
	"context"
	"fmt"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
)

// TakenAgain are the numbers of the renderings that components are to take again, by component. Webhooks refuse components that take
// none. One that came past them is left out.
func TakenAgain(rollout controlplanev1.RolloutSpec) map[string]int64 {
	again := map[string]int64{}
	for _, named := range rollout.Renderings {
		if registry.Components.TakesAgain(named.Component) {
			again[named.Component] = named.Revision
		}
	}
	return again
}

// noteNotTaken notes that a component does not take the rendering again that spec names.
func (a *Adopter) noteNotTaken(ctx context.Context, component components.Component) error {
	number, named := a.Revisions.Again[component.Name]
	if !named {
		return nil
	}
	hash, err := component.Inputs(a.Input).Hash()
	if err != nil {
		return err
	}
	problem, err := a.Revisions.NotTaken(ctx, a.Cluster, component.Name, hash)
	if problem == "" || err != nil {
		return err
	}
	a.Note(fmt.Errorf("spec.rollout.renderings: %s does not take revision %d again, %s: remove the entry, or name another revision that `kok history %s --renderings` lists",
		component.Name, number, problem, a.Cluster.Name))
	return nil
}
