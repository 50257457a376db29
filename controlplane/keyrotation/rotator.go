package keyrotation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/events"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/nodekeys"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenantprobes"
)

// Rotator takes the next steps of rotations of keys.
type Rotator struct {
	Prober  tenantprobes.Prober
	Clock   clock.PassiveClock
	Tenants tenantprobes.Tenants
	// Etcd is how etcd clusters are read, and asked how they are.
	Etcd operator.Etcd
	// Reads limits how many etcds are read at the same time.
	Reads *Reads
	// NodeKeysImage is the image of kok-node-keys, which brings nodes the CAs of each phase; empty for none.
	NodeKeysImage string
}

// Facts are what a reconcile knows of a control plane. Next changes none of them; ReadKeys replaces the caller's keys.
type Facts struct {
	ControlPlane *controlplanev1.KOKControlPlane
	Cluster      client.ObjectKey
	Host         *hostclusters.Host
	// Pods are those of components in the host cluster, as a cache has them.
	Pods      map[string][]corev1.Pod
	Store     *pki.Store
	Revisions *revision.Store
	Input     *components.Input
	Keys      *pki.KeyMaterial
	// ReadKeys reads key material anew, from API servers, and puts right what differs from it.
	ReadKeys func(context.Context) (*pki.KeyMaterial, error)
	// Problem is why the control plane is invalid: no rotation begins meanwhile. It is nil for a valid one.
	Problem error
	// Runs is true for a control plane with a tenant that must be kept up.
	Runs bool
	// Restoring is true while a person asks for a restore in place that is not over.
	Restoring bool
	// Rotated is told of each phase once it is stored, for Events.
	Rotated func(events.Rotated)
}

// Step is how the next steps of all rotations ended.
type Step struct {
	flow.Result
	// Keys are those whose files renderings use (SetFiles); nil if they could not be read.
	Keys *pki.KeyMaterial
	// Rotations tell people how far each kind has come that a person asks for or that is under way.
	Rotations []status.Rotation
	// Nodes is what the nodes of the tenant have to have of the cluster CA; nil while that does not rotate.
	Nodes *nodekeys.Wanted
	// Probing is true when a probe has no result yet.
	Probing bool
}

// run is one call of Next.
type run struct {
	*Rotator
	of *Facts
	// keys and input are those of the facts, and follow what this run stores.
	keys  *pki.KeyMaterial
	input components.Input
	step  Step
}

// Next takes the next steps of rotations of keys. A rotation that waits holds up nothing else.
func (r *Rotator) Next(ctx context.Context, of *Facts) Step {
	u := &run{Rotator: r, of: of, keys: of.Keys, input: *of.Input}
	u.step.Result = u.rotateKeys(ctx)
	return u.step
}

func (u *run) rotateKeys(ctx context.Context) flow.Result {
	if lost := u.lostRotations(); lost != nil {
		u.withdrawProbes(nil)
		return flow.Blocked(conditionsv1.KeyMaterialLostReason, lost)
	}
	if slices.ContainsFunc(u.rotationStates(), func(state rotation.State) bool { return state.Record.UnderWay() || state.Begins() }) {
		// A cache that lags behind would have pods go back to the keys of an earlier phase.
		if err := u.readKeys(ctx); err != nil {
			u.withdrawProbes(nil)
			return Failed(err)
		}
	}
	for {
		states := u.rotationStates()
		u.withdrawProbes(states)
		u.step.Nodes = nil
		SetFiles(&u.input, u.keys)
		u.step.Keys = u.keys
		if err := u.observeRotations(ctx, states); err != nil {
			return flow.Failed(err)
		}
		actions := rotation.Together(states)
		u.tellRotations(states, actions)
		wrote, err := u.writeRotations(ctx, states, actions)
		if !wrote && err == nil {
			return flow.Done()
		}
		if err := errors.Join(err, u.readKeys(ctx)); err != nil {
			return Failed(err)
		}
	}
}

// Failed is the result without key material. Lost and invalid keys are for a person.
func Failed(err error) flow.Result {
	var lost *pki.LostError
	var invalid *pki.InvalidError
	switch {
	case errors.As(err, &lost):
		return flow.Blocked(conditionsv1.KeyMaterialLostReason, err)
	case errors.As(err, &invalid):
		return flow.Blocked(conditionsv1.InvalidKeyMaterialReason, err)
	}
	return flow.Failed(err)
}

func (u *run) readKeys(ctx context.Context) error {
	keys, err := u.of.ReadKeys(ctx)
	if err == nil {
		u.keys = keys
	}
	return err
}

// writeRotations stores the phases that come next, and has Events tell of each that is stored.
func (u *run) writeRotations(ctx context.Context, states []rotation.State, actions []rotation.Action) (wrote bool, err error) {
	for i, action := range actions {
		if action.Kind != rotation.Write {
			continue
		}
		wrote = true
		kind := &rotatingKinds[i]
		if failed := u.of.Store.Rotate(ctx, u.of.Cluster, u.keys, kind.material, action.Record); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		u.of.Rotated(events.Rotated{Kind: kind.asked, What: kind.material, From: states[i].Record.Phase, To: action.Record.Phase})
	}
	return wrote, err
}

// withdrawProbes ends the probes of kinds that are in no phase of their seenIn; without states it ends all of them.
func (u *run) withdrawProbes(states []rotation.State) {
	for i := range rotatingKinds {
		if kind := &rotatingKinds[i]; kind.seen != nil && (states == nil || !slices.Contains(kind.seenIn, states[i].Record.Phase)) {
			u.Prober.Withdraw(u.probeKey(kind))
		}
	}
}

// probeKey is the key of the probe by which a kind looks for what pods do not show.
func (u *run) probeKey(kind *rotatingKind) probe.Key {
	return probe.Key{Object: client.ObjectKeyFromObject(u.of.ControlPlane), Kind: kind.probedAs}
}

// tellRotations notes for the status how far each kind has come that a person asks for or that is under way.
func (u *run) tellRotations(states []rotation.State, actions []rotation.Action) {
	u.step.Rotations = nil
	spec := u.of.ControlPlane.Spec.KeyRotation
	for i, state := range states {
		asked := slices.Contains(spec.Kinds, rotatingKinds[i].asked)
		if !asked && !state.Record.UnderWay() {
			continue
		}
		says := actions[i].Reason
		if asked && actions[i].Kind == rotation.None && spec.PrepareAfter.After(u.Clock.Now()) {
			says = "the next rotation begins at " + rebuild.Stamp(spec.PrepareAfter.Time)
		}
		u.step.Rotations = append(u.step.Rotations, status.Rotation{Kind: state.Kind, Asked: rotatingKinds[i].asked, Record: state.Record, Says: says})
	}
}

// rotationStates has a state for each of rotatingKinds, in their order, without what observeRotations adds.
func (u *run) rotationStates() []rotation.State {
	states := make([]rotation.State, len(rotatingKinds))
	for i := range rotatingKinds {
		states[i] = u.rotationState(&rotatingKinds[i])
	}
	return states
}

func (u *run) rotationState(kind *rotatingKind) rotation.State {
	now, spec := u.Clock.Now(), u.of.ControlPlane.Spec.KeyRotation
	state := rotation.State{Kind: kind.material, Now: rebuild.Stamp(now), GivenUp: spec.CompleteAnyway}
	switch {
	case u.of.Problem != nil:
		state.Problem = u.of.Problem.Error()
	case !u.of.Runs:
		state.Problem = "it begins when the condition Initialized is true"
	case kind.asked == controlplanev1.ClusterCAKind && u.NodeKeysImage == "":
		state.Problem = "the manager's flag --node-keys-image does not name the image of kok-node-keys"
	default:
		if volatile := u.of.volatileHolders(kind); len(volatile) > 0 {
			state.Problem = fmt.Sprintf("members of %s would have to restart, and keep their data in their pods", strings.Join(volatile, " and "))
		}
	}
	if found := u.keys.Rotation(kind.material); found != nil {
		state.Record = found.Record
	}
	if !slices.Contains(spec.Kinds, kind.asked) {
		return state
	}
	if !spec.PrepareAfter.After(now) {
		state.Prepare = rebuild.Stamp(spec.PrepareAfter.Time)
	}
	if !spec.CompleteAfter.After(now) {
		state.Complete = rebuild.Stamp(spec.CompleteAfter.Time)
	}
	return state
}

// volatileHolders are etcd clusters that have keys of the kind, and whose members lose their data when their pods are replaced.
func (f *Facts) volatileHolders(kind *rotatingKind) []string {
	return slices.DeleteFunc(etcdclusters.Of(f.ControlPlane), func(component string) bool {
		return !slices.Contains(registry.Components.Holding(kind.pods).Names(), component) ||
			etcdclusters.Spec(f.ControlPlane, component).Storage.Type != controlplanev1.EtcdStorageEmptyDir
	})
}

// observeRotations adds what the host cluster and the tenant tell. Pods are read once for all kinds.
func (u *run) observeRotations(ctx context.Context, states []rotation.State) error {
	var seen *holders
	for i := range rotatingKinds {
		kind, state := &rotatingKinds[i], &states[i]
		switch state.Record.Phase {
		case rotation.Trusting, rotation.Using, rotation.Dropping:
			if seen == nil {
				var err error
				if seen, err = readHolders(ctx, u.of); err != nil {
					return err
				}
			}
			state.Behind = seen.behind(&u.input, kind)
		}
		if slices.Contains(kind.seenIn, state.Record.Phase) {
			due := rotation.Together(states)[i].Kind == rotation.Write
			if err := kind.seen(u, ctx, state, look{u.probeKey(kind), due}); err != nil {
				return err
			}
		}
	}
	return nil
}

// lostRotations says that a pod has the key of a rotation whose copies are both gone; nil when no pod has.
func (u *run) lostRotations() error {
	for i := range rotatingKinds {
		kind := &rotatingKinds[i]
		if u.keys.Rotation(kind.material) != nil {
			continue
		}
		for _, component := range registry.Components.Holding(kind.pods) {
			for i := range u.of.Pods[component.Name] {
				pod := &u.of.Pods[component.Name][i]
				if !hostpods.Ended(pod) && component.HasRotatedKey(kind.pods, &pod.Spec) {
					return fmt.Errorf("pod %s has the %s of a rotation, and both copies of that are missing: Secret %s-%s in the management cluster and data key %s of Secret %s in the host cluster; restore one of them from a backup",
						pod.Name, kind.material, u.of.Cluster.Name, pki.RotationPurpose, kind.data, names.KeyMaterial(u.of.Cluster.Name))
				}
			}
		}
	}
	return nil
}
