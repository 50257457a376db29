package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/events"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// rotatingKind is a kind of key that rotates.
type rotatingKind struct {
	// asked is the name of the kind in spec, material its name in key material and in messages.
	asked    controlplanev1.KeyKind
	material string
	// pods says which pods have keys of the kind, and how their specs show which.
	pods components.KeyKind
	// data are the data keys of the kind's rotation in the host cluster's copy.
	data string
	// seen adds what pods do not show: what needs the former key, or what does not have the keys of the phase. It is called in the phases
	// seenIn, and uses a probe of the kind probedAs. It is nil for a kind of which pods show all.
	seen     func(*Reconciler, context.Context, *scope, *rotation.State, look) error
	seenIn   []rotation.Phase
	probedAs string
}

// look is how a kind looks for what pods do not show.
type look struct {
	key probe.Key
	// due is true when the next step waits for this look alone: a person asks for the end and no other kind holds it up, or no pod has
	// the former key any more.
	due bool
}

// rotatingKinds are all kinds, in the order of messages. Whether a look is due depends on the kinds before it,
// and so at most one kind may depend on that.
var rotatingKinds = []rotatingKind{
	{
		asked: controlplanev1.ServiceAccountKeyKind, material: pki.ServiceAccount, pods: components.ServiceAccountKey, data: "sa.rotation",
		seen: (*Reconciler).addTokens, seenIn: []rotation.Phase{rotation.Prepared}, probedAs: formerKeyProbeKind,
	},
	{
		asked: controlplanev1.EncryptionKeyKind, material: pki.Encryption, pods: components.EncryptionKey, data: "encryption.rotation",
		seen: (*Reconciler).addObjects, seenIn: []rotation.Phase{rotation.Prepared, rotation.Dropping}, probedAs: rewritingProbeKind,
	},
	{
		asked: controlplanev1.FrontProxyCAKind, material: string(pki.FrontProxyCA), pods: components.FrontProxyCA, data: "front-proxy-ca.rotation",
		seen: addPublishedCAs(pki.FrontProxyCA, tenant.PublishedFrontProxyCAs), seenIn: []rotation.Phase{rotation.Trusting, rotation.Dropping}, probedAs: frontProxyProbeKind,
	},
	{asked: controlplanev1.EtcdCAKind, material: string(pki.EtcdCA), pods: components.EtcdCA, data: "etcd-ca.rotation"},
	{asked: controlplanev1.EtcdEventsCAKind, material: string(pki.EtcdEventsCA), pods: components.EtcdEventsCA, data: "etcd-events-ca.rotation"},
}

// probeKey is the key of the probe that looks for what pods do not show.
func (k *rotatingKind) probeKey(s *scope) probe.Key {
	return probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: k.probedAs}
}

// rotateKeys takes the next steps of rotations of keys, and has renderings follow their phases. A rotation that waits holds up nothing else.
func (r *Reconciler) rotateKeys(ctx context.Context, s *scope) flow.Result {
	if lost := s.lostRotations(); lost != nil {
		r.withdrawProbes(s, nil)
		return flow.Blocked(controlplanev1.KeyMaterialLostReason, lost)
	}
	if slices.ContainsFunc(r.rotationStates(s), func(state rotation.State) bool { return state.Record.UnderWay() || state.Begins() }) {
		// A cache that lags behind would have pods go back to the keys of an earlier phase.
		if err := r.readKeys(ctx, s, true); err != nil {
			r.withdrawProbes(s, nil)
			return keyMaterialFailed(err)
		}
	}
	for {
		states := r.rotationStates(s)
		r.withdrawProbes(s, states)
		for i := range rotatingKinds {
			files := rotatingKinds[i].pods.In(&s.input)
			files.Trusted, files.Used = s.keys.Files(rotatingKinds[i].material)
		}
		if err := r.observeRotations(ctx, s, states); err != nil {
			return flow.Failed(err)
		}
		actions := rotation.Together(states)
		r.tellRotations(s, states, actions)
		wrote, err := s.writeRotations(ctx, states, actions)
		if !wrote && err == nil {
			return flow.Done()
		}
		if err := errors.Join(err, r.readKeys(ctx, s, true)); err != nil {
			return keyMaterialFailed(err)
		}
	}
}

// writeRotations stores the phases that come next, and has Events tell of each that is stored.
func (s *scope) writeRotations(ctx context.Context, states []rotation.State, actions []rotation.Action) (wrote bool, err error) {
	for i, action := range actions {
		if action.Kind != rotation.Write {
			continue
		}
		wrote = true
		kind := &rotatingKinds[i]
		if failed := s.store.Rotate(ctx, s.key, s.keys, kind.material, action.Record); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		s.deeds.Rotate(events.Rotated{Kind: kind.asked, What: kind.material, From: states[i].Record.Phase, To: action.Record.Phase})
	}
	return wrote, err
}

// withdrawProbes ends the probes of kinds that are in no phase of their seenIn; without states it ends all of them.
func (r *Reconciler) withdrawProbes(s *scope, states []rotation.State) {
	for i := range rotatingKinds {
		if kind := &rotatingKinds[i]; kind.seen != nil && (states == nil || !slices.Contains(kind.seenIn, states[i].Record.Phase)) {
			r.prober.Withdraw(kind.probeKey(s))
		}
	}
}

// tellRotations notes for the status how far each kind has come that a person asks for or that is under way.
func (r *Reconciler) tellRotations(s *scope, states []rotation.State, actions []rotation.Action) {
	s.rotations = nil
	spec := s.controlPlane.Spec.KeyRotation
	for i, state := range states {
		asked := slices.Contains(spec.Kinds, rotatingKinds[i].asked)
		if !asked && !state.Record.UnderWay() {
			continue
		}
		says := actions[i].Reason
		if asked && actions[i].Kind == rotation.None && spec.PrepareAfter.After(r.Clock.Now()) {
			says = "the next rotation begins at " + stamp(spec.PrepareAfter)
		}
		s.rotations = append(s.rotations, status.Rotation{Kind: state.Kind, Asked: rotatingKinds[i].asked, Record: state.Record, Says: says})
	}
}

// rotationStates has a state for each of rotatingKinds, in their order, without what observeRotations adds.
func (r *Reconciler) rotationStates(s *scope) []rotation.State {
	states := make([]rotation.State, len(rotatingKinds))
	for i := range rotatingKinds {
		states[i] = r.rotationState(s, &rotatingKinds[i])
	}
	return states
}

func (r *Reconciler) rotationState(s *scope, kind *rotatingKind) rotation.State {
	now, spec := r.Clock.Now(), s.controlPlane.Spec.KeyRotation
	state := rotation.State{Kind: kind.material, Now: stamp(metav1.NewTime(now)), GivenUp: spec.CompleteAnyway}
	switch {
	case s.problem != nil:
		state.Problem = s.problem.Error()
	case !runs(s.controlPlane):
		state.Problem = "it begins when the condition Initialized is true"
	default:
		if volatile := s.volatileHolders(kind); len(volatile) > 0 {
			state.Problem = fmt.Sprintf("members of %s would have to restart, and keep their data in their pods", strings.Join(volatile, " and "))
		}
	}
	if found := s.keys.Rotation(kind.material); found != nil {
		state.Record = found.Record
	}
	if !slices.Contains(spec.Kinds, kind.asked) {
		return state
	}
	if !spec.PrepareAfter.After(now) {
		state.Prepare = stamp(spec.PrepareAfter)
	}
	if !spec.CompleteAfter.After(now) {
		state.Complete = stamp(spec.CompleteAfter)
	}
	return state
}

// volatileHolders are etcd clusters that have keys of the kind, and whose members lose their data when their pods are replaced.
func (s *scope) volatileHolders(kind *rotatingKind) []string {
	return slices.DeleteFunc(etcdclusters.Of(s.controlPlane), func(component string) bool {
		return !slices.Contains(kind.pods.Holders(), component) ||
			etcdclusters.Spec(s.controlPlane, component).Storage.Type != controlplanev1.EtcdStorageEmptyDir
	})
}

// observeRotations adds what the host cluster and the tenant tell. Pods are read once for all kinds.
func (r *Reconciler) observeRotations(ctx context.Context, s *scope, states []rotation.State) error {
	var seen *holders
	for i := range rotatingKinds {
		kind, state := &rotatingKinds[i], &states[i]
		switch state.Record.Phase {
		case rotation.Trusting, rotation.Using, rotation.Dropping:
			if seen == nil {
				var err error
				if seen, err = readHolders(ctx, s); err != nil {
					return err
				}
			}
			state.Behind = seen.behind(s, kind)
		}
		if slices.Contains(kind.seenIn, state.Record.Phase) {
			due := rotation.Together(states)[i].Kind == rotation.Write
			if err := kind.seen(r, ctx, s, state, look{kind.probeKey(s), due}); err != nil {
				return err
			}
		}
	}
	return nil
}

// holders are the workloads and pods of components that have keys, by component, as the API server of the host cluster has them. A workload
// that does not exist is not in the map. A component that this tenant does not have is absent, such as the etcd of events where events are in
// the data.
type holders struct {
	workloads map[string]client.Object
	absent    map[string]bool
	pods      map[string][]corev1.Pod
}

func readHolders(ctx context.Context, s *scope) (*holders, error) {
	pods, err := hostpods.List(ctx, s.host.Live, s.key)
	if err != nil {
		return nil, err
	}
	seen := &holders{workloads: map[string]client.Object{}, absent: map[string]bool{}, pods: pods}
	kinds := workloads.Kinds(s.controlPlane)
	for i := range rotatingKinds {
		for _, component := range rotatingKinds[i].pods.Holders() {
			workload, at := kinds[component], client.ObjectKey{Namespace: s.key.Namespace, Name: names.Object(s.key.Name, component)}
			if seen.absent[component] = workload == nil; workload == nil || seen.workloads[component] != nil {
				continue
			}
			switch err := s.host.Live.Get(ctx, at, workload); {
			case err == nil:
				seen.workloads[component] = workload
			case !apierrors.IsNotFound(err):
				return nil, fmt.Errorf("read the workload of %s: %w", component, err)
			}
		}
	}
	return seen, nil
}

// behind are workloads and pods that do not have the keys of the present phase. A pod that stops serves until it has
// stopped.
func (h *holders) behind(s *scope, kind *rotatingKind) []string {
	var behind []string
	for _, component := range kind.pods.Holders() {
		workload := h.workloads[component]
		if !h.absent[component] && (workload == nil || !kind.pods.AreOf(&s.input, component, &patches.PodTemplate(workload).Spec) || !rolledOut(workload)) {
			behind = append(behind, component)
		}
		for i := range h.pods[component] {
			if pod := &h.pods[component][i]; !hostpods.Ended(pod) && !kind.pods.AreOf(&s.input, component, &pod.Spec) {
				behind = append(behind, "pod "+pod.Name)
			}
		}
	}
	return behind
}

// rolledOut reports whether all pods are of the workload's present template, and no pod of a former one can come. A Deployment scales
// former ReplicaSets to zero before it tells that all its pods are up to date and available (rolloutRolling of kube-controller-manager).
func rolledOut(workload client.Object) bool {
	return workloads.StateOf(workload).Complete()
}

// lostRotations says that a pod has the key of a rotation whose copies are both gone; nil when no pod has.
func (s *scope) lostRotations() error {
	for i := range rotatingKinds {
		kind := &rotatingKinds[i]
		if s.keys.Rotation(kind.material) != nil {
			continue
		}
		for _, component := range kind.pods.Holders() {
			for i := range s.snapshot.Pods[component] {
				pod := &s.snapshot.Pods[component][i]
				if !hostpods.Ended(pod) && kind.pods.IsRotated(component, &pod.Spec) {
					return fmt.Errorf("pod %s has the %s of a rotation, and both copies of that are missing: Secret %s-%s in the management cluster and data key %s of Secret %s in the host cluster; restore one of them from a backup",
						pod.Name, kind.material, s.key.Name, pki.RotationPurpose, kind.data, names.KeyMaterial(s.key.Name))
				}
			}
		}
	}
	return nil
}
