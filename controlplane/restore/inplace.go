package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/deletion"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// Restorer founds the etcds of control planes anew.
type Restorer struct {
	// Management reads snapshots and their control planes in the management cluster, from a cache.
	Management client.Reader
	Backups    *backups.Keeper
	Clock      clock.PassiveClock
	// AgentImage is the image of kok-etcd-agent for members; empty for none.
	AgentImage string
	// EndOperator ends what the etcd operator does beside reconciles.
	EndOperator func(controlPlane client.ObjectKey)
}

// Facts are what a reconcile knows of a control plane. Nothing here changes them.
type Facts struct {
	ControlPlane *controlplanev1.KOKControlPlane
	Cluster      client.ObjectKey
	Host         *hostclusters.Host
	// HostOwner is the owner of objects in the host cluster; nil when the host cluster is not the management cluster.
	HostOwner *metav1.OwnerReference
	Input     *components.Input
	Keys      *pki.KeyMaterial
	// Unrendered says why the controller makes no new rendering of any component. It is nil if the controller makes them.
	Unrendered error
	// Agents tells how to ask the agents of members; nil while none can be asked.
	Agents *backups.Facts
}

// Step is how a step of a restore in place ended.
type Step struct {
	flow.Result
	Progress Progress
	// Says tells people what the restore waits for; empty when no restore is under way.
	Says string
	// Refused tells people what is wrong with the request; nil if nothing is.
	Refused error
}

// InPlace founds the data etcd anew when a person asks for it, or when spec allows it without a person and no quorum can return. Package
// rebuild decides on each step. When something is wrong with the request, InPlace says so and changes nothing.
func (r *Restorer) InPlace(ctx context.Context, of *Facts, p Progress) Step {
	step := Step{Progress: p}
	if p.superseded != "" {
		step.Refused = fmt.Errorf("spec.etcd.restore: requestedAt is %s, and the controller itself began to found etcd anew at %s: to begin with what you name, set requestedAt to the present time", p.superseded, p.Record.Restore)
	}
	if p.read && !p.Asked() && mayAskByItself(of.ControlPlane) {
		var err error
		if step.Progress, step.Refused, err = r.askByItself(ctx, of, p); err != nil {
			step.Result = flow.Failed(err)
			return step
		}
	}
	if p.read && p.Founding() && p.request == p.Record.Restore && !p.Founded(of.ControlPlane) {
		var err error
		if step.Progress, err = r.lookAtSeed(ctx, of, p); err != nil {
			step.Result = flow.Failed(err)
			return step
		}
	}
	for step.Progress.Asked() {
		state, err := r.stateOf(ctx, of, &step.Progress)
		if err != nil {
			step.Result = flow.Failed(err)
			return step
		}
		action := rebuild.Decide(state)
		if again := r.take(ctx, of, &step, action); !again {
			return step
		}
	}
	return step
}

// take takes the step that was decided on, and reports whether another one may follow at once.
func (r *Restorer) take(ctx context.Context, of *Facts, step *Step, action rebuild.Action) (again bool) {
	switch action.Kind {
	case rebuild.Refuse:
		step.Refused, step.Says = errors.New(step.Progress.field()+": "+action.Reason), step.Progress.refusal
		if record := step.Progress.Record; record.UnderWay() && step.Says == "" {
			step.Says = fmt.Sprintf("the restore of %s is not over, and a later one is refused, as the condition Reconciled says", record.Restore)
		}
	case rebuild.Stop:
		step.Says, step.Result = action.Reason, flow.Waiting(action.Reason)
		r.EndOperator(client.ObjectKeyFromObject(of.ControlPlane))
		if err := deletion.Stop(ctx, of.Host, of.Cluster, usersOfData(of.ControlPlane)); err != nil {
			step.Result = flow.Failed(err)
		}
	case rebuild.Wait:
		step.Says = action.Reason
		if founds := step.Progress.Founding() && step.Progress.request != ""; !founds { // Later steps of the reconcile found etcd then.
			step.Result = flow.Waiting(action.Reason)
		}
	case rebuild.Write:
		var err error
		if action.Record.Phase == rebuild.Founding { // Members of the new etcd may run once this is written.
			err = step.Progress.keepVolumes(ctx, of)
		}
		if err == nil {
			step.Progress, err = step.Progress.writeData(ctx, of, action.Record)
		}
		if err != nil {
			step.Result = flow.Failed(err)
			return false
		}
		if !step.Progress.Founding() {
			return true
		}
		step.Says = "everything that knew the former data has stopped"
		step.Result = flow.Waiting(step.Says) // The record wakes the next reconcile, which renders etcd for it.
	case rebuild.None:
	}
	return false
}

// usersOfData are empty objects of the workloads that use the data, by component.
func usersOfData(controlPlane *controlplanev1.KOKControlPlane) map[string]client.Object {
	kinds := workloads.Kinds(controlPlane)
	maps.DeleteFunc(kinds, func(component string, _ client.Object) bool { return !usesData(component) })
	return kinds
}
