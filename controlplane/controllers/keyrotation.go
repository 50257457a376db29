package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// rotating are the components whose pods have service account keys.
var rotating = []string{names.KubeAPIServer, names.KubeControllerManager}

// rotateKeys takes the next steps of the rotation of the service account key, and has renderings follow its phase. What it waits for
// stops nothing else.
func (r *Reconciler) rotateKeys(ctx context.Context, s *scope) flow.Result {
	key := probe.Key{Object: client.ObjectKeyFromObject(s.controlPlane), Kind: formerKeyProbeKind}
	defer func() {
		if s.rotation.Record.Phase != rotation.Prepared {
			r.prober.Withdraw(key)
		}
	}()
	if lost := s.lostRotation(); lost != nil {
		return flow.Blocked(controlplanev1.KeyMaterialLostReason, lost)
	}
	if state := r.rotationState(s); state.Record.UnderWay() || state.Begins() {
		// A cache that lags behind would have pods go back to the keys of an earlier phase.
		if err := r.readKeys(ctx, s, true); err != nil {
			return keyMaterialFailed(err)
		}
	}
	for {
		state := r.rotationState(s)
		s.rotation.Record, s.rotation.Says = state.Record, ""
		s.input.ServiceAccountKeys.Trusted, s.input.ServiceAccountKeys.Used = s.keys.Files(pki.ServiceAccount)
		if err := r.observeRotation(ctx, s, &state, key); err != nil {
			return flow.Failed(err)
		}
		action := rotation.Decide(state)
		switch action.Kind {
		case rotation.None:
			if asked := s.controlPlane.Spec.KeyRotation.PrepareAfter; asked.After(r.Clock.Now()) {
				s.rotation.Says = "the next rotation begins at " + stamp(asked)
			}
			return flow.Done()
		case rotation.Wait:
			s.rotation.Says = action.Reason
			return flow.Done()
		}
		if err := s.store.Rotate(ctx, s.key, s.keys, pki.ServiceAccount, action.Record); err != nil {
			return flow.Failed(err)
		}
		if err := r.readKeys(ctx, s, true); err != nil {
			return keyMaterialFailed(err)
		}
	}
}

// rotationState is what the next step depends on, without what is observed.
func (r *Reconciler) rotationState(s *scope) rotation.State {
	now, spec := r.Clock.Now(), s.controlPlane.Spec.KeyRotation
	state := rotation.State{Now: stamp(metav1.NewTime(now)), GivenUp: spec.CompleteAnyway}
	switch {
	case s.problem != nil:
		state.Problem = s.problem.Error()
	case !runs(s.controlPlane):
		state.Problem = "it begins when the condition Initialized is true"
	}
	if found := s.keys.Rotation(pki.ServiceAccount); found != nil {
		state.Record = found.Record
	}
	if !slices.Contains(spec.Kinds, controlplanev1.ServiceAccountKeyKind) {
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

// observeRotation adds what the host cluster and the tenant tell.
func (r *Reconciler) observeRotation(ctx context.Context, s *scope, state *rotation.State, key probe.Key) (err error) {
	switch state.Record.Phase {
	case rotation.Trusting, rotation.Using, rotation.Dropping:
		state.Behind, err = keysBehind(ctx, s)
	case rotation.Prepared:
		err = r.addNeeds(s, state, key)
	}
	return err
}

// keysBehind are workloads and pods that do not have the keys of the present phase, as the API server of the host cluster has them. A
// pod that stops serves until it has.
func keysBehind(ctx context.Context, s *scope) ([]string, error) {
	pods, err := hostpods.List(ctx, s.host.Live, s.key)
	if err != nil {
		return nil, err
	}
	var behind []string
	kinds := workloads.Kinds(s.controlPlane)
	for _, component := range rotating {
		workload, at := kinds[component], client.ObjectKey{Namespace: s.key.Namespace, Name: names.Object(s.key.Name, component)}
		err := s.host.Live.Get(ctx, at, workload)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the workload of %s: %w", component, err)
		}
		if apierrors.IsNotFound(err) || !s.input.ServiceAccountKeys.AreOf(component, &patches.PodTemplate(workload).Spec) || !rolledOut(workload) {
			behind = append(behind, component)
		}
		for i := range pods[component] {
			if pod := &pods[component][i]; !hostpods.Ended(pod) && !s.input.ServiceAccountKeys.AreOf(component, &pod.Spec) {
				behind = append(behind, "pod "+pod.Name)
			}
		}
	}
	return behind, nil
}

// rolledOut reports whether all pods are of the workload's present template, and no pod of a former one can come. A Deployment scales
// former ReplicaSets to zero before it tells that all its pods are up to date and available (rolloutRolling of kube-controller-manager).
func rolledOut(workload client.Object) bool {
	return workloads.StateOf(workload).Complete()
}

// lostRotation says that both copies of a rotation are gone of which pods have the key; nil when they are not.
func (s *scope) lostRotation() error {
	if s.keys.Rotation(pki.ServiceAccount) != nil {
		return nil
	}
	for i := range s.snapshot.Pods[names.KubeAPIServer] {
		pod := &s.snapshot.Pods[names.KubeAPIServer][i]
		if !hostpods.Ended(pod) && components.HasRotatedKeys(names.KubeAPIServer, &pod.Spec) {
			return fmt.Errorf("pod %s has a service account key that a rotation made, and both copies of that are missing: Secret %s-%s in the management cluster and data key sa.rotation of Secret %s in the host cluster; restore one of them from a backup",
				pod.Name, s.key.Name, pki.RotationPurpose, names.KeyMaterial(s.key.Name))
		}
	}
	return nil
}

// podTokensLife is how long kubelet keeps a token of a pod at the most, and a little more: it renews each after 24 hours or four fifths
// of its life (pkg/kubelet/token of Kubernetes).
const podTokensLife = 24*time.Hour + 10*time.Minute

// addNeeds adds what needs the former service account key.
func (r *Reconciler) addNeeds(s *scope, state *rotation.State, key probe.Key) error {
	former, err := s.keys.FormerTokenKeys()
	if err != nil {
		return err
	}
	// Names are of this rotation alone: who gives up something of it gives up nothing of the next.
	of := s.keys.Rotation(pki.ServiceAccount).File()
	since, err := time.Parse(time.RFC3339, state.Record.Since)
	if err != nil {
		return fmt.Errorf("read since when the new service account key is in use: %w", err)
	}
	if renewed := since.Add(podTokensLife); r.Clock.Now().Before(renewed) {
		state.Needs = append(state.Needs, rotation.Need{
			Name: "pod-tokens/" + of,
			Why:  fmt.Sprintf("kubelets renew the tokens of all pods until %s, and those of most within an hour", stamp(metav1.NewTime(renewed))),
		})
	}
	check := &formerKeyProbe{api: r.tenantProbe(s), keys: former}
	result, told := r.prober.Probe(key, check.probe(state.Record))
	found, seen := result.Value.(formerTokens)
	switch {
	case !told:
		s.probing = true
		fallthrough
	case !seen:
		why := result.Problem
		if !told {
			why = "the tenant is being probed"
		}
		state.Needs = append(state.Needs, rotation.Need{Name: "unseen/" + of, Why: why})
	default:
		for _, name := range found.secrets {
			state.Needs = append(state.Needs, rotation.Need{Name: "secret/" + of + "/" + name})
		}
		if found.more > 0 {
			state.Needs = append(state.Needs, rotation.Need{Name: "other-secrets/" + of, Why: fmt.Sprintf("%d more Secrets, which are named when others of them are mended", found.more)})
		}
	}
	return nil
}
