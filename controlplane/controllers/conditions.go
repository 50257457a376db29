package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

var etcdComponents = registry.Components.OfCondition(controlplanev1.EtcdClusterHealthyCondition)

// ownedConditions are the conditions that the controller sets.
var ownedConditions = []string{
	clusterv1.PausedCondition,
	controlplanev1.AvailableCondition,
	controlplanev1.InitializedCondition,
	controlplanev1.CertificatesAvailableCondition,
	controlplanev1.EtcdClusterHealthyCondition,
	controlplanev1.ControlPlaneComponentsHealthyCondition,
	controlplanev1.AddonsInstalledCondition,
	controlplanev1.EgressConfinedCondition,
	controlplanev1.RollingOutCondition,
	controlplanev1.ScalingUpCondition,
	controlplanev1.ScalingDownCondition,
	controlplanev1.ReconciledCondition,
	controlplanev1.MovableCondition,
	controlplanev1.DeletingCondition,
}

func setConditions(s *scope, seen *observation) {
	for _, condition := range []metav1.Condition{
		certificatesAvailable(s),
		initialized(s),
		etcdClusterHealthy(seen),
		componentsHealthy(seen),
		addonsInstalled(s),
		egressConfined(s, seen),
		rollingOut(seen),
		scalingUp(s, seen),
		scalingDown(s, seen),
		available(s, seen),
		reconciled(s),
		movable(s),
		notDeleting(),
	} {
		conditions.Set(s.controlPlane, condition)
	}
}

func condition(conditionType string, status metav1.ConditionStatus, reason string, messages ...string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: strings.Join(messages, "\n")}
}

// certificatesAvailable is about key material and the certificates made with it.
func certificatesAvailable(s *scope) metav1.Condition {
	const name = controlplanev1.CertificatesAvailableCondition
	for _, step := range []string{stepKeyMaterial, stepCertificates, stepKubeconfig} {
		outcome := s.outcome(step)
		switch {
		case outcome.Blocked():
			return condition(name, metav1.ConditionFalse, outcome.Reason(), outcome.Err().Error())
		case outcome.Err() != nil:
			return condition(name, metav1.ConditionUnknown, controlplanev1.ReconcileFailedReason, errortext.Steady(outcome.Err()))
		case !outcome.Done():
			return condition(name, metav1.ConditionFalse, controlplanev1.WaitingReason, waitingFor(s, step))
		}
	}
	return condition(name, metav1.ConditionTrue, controlplanev1.AvailableReason)
}

// initialized never turns back.
func initialized(s *scope) metav1.Condition {
	if ptr.Deref(s.controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return condition(controlplanev1.InitializedCondition, metav1.ConditionTrue, controlplanev1.InitializedReason)
	}
	return condition(controlplanev1.InitializedCondition, metav1.ConditionFalse, controlplanev1.NotInitializedReason,
		waitingFor(s, stepTenantObjects))
}

// etcdClusterHealthy is what etcd says of itself. Where it could not be asked its pods may tell; what
// nobody can tell is unknown.
func etcdClusterHealthy(seen *observation) metav1.Condition {
	const name = controlplanev1.EtcdClusterHealthyCondition
	var unhealthy, unknown []string
	for _, component := range etcdComponents {
		health, state := seen.etcd[component], seen.workloads[component]
		switch {
		case health != nil && errors.Is(health.Err, errNotObserved) && state.works():
			unknown = append(unknown, component+" is being asked")
		case health != nil && health.Answered():
			for _, problem := range health.Problems() {
				unhealthy = append(unhealthy, component+": "+problem)
			}
			if len(health.Problems()) == 0 && !state.complete() && seen.lostPods(component) == 0 {
				unhealthy = append(unhealthy, workloadProblems(seen, component)...)
			}
		case health == nil && state.complete():
			unknown = append(unknown, component+" could not be asked without certificates; its pods are ready")
		case state.complete() || seen.mayHave(component, state.wanted()):
			unknown = append(unknown, fmt.Sprintf("%s cannot be asked%s", component, lostNodesNote(seen)))
		default:
			unhealthy = append(unhealthy, workloadProblems(seen, component)...)
		}
	}
	switch {
	case len(unhealthy) > 0:
		return condition(name, metav1.ConditionFalse, controlplanev1.UnhealthyReason, unhealthy...)
	case len(unknown) > 0:
		return condition(name, metav1.ConditionUnknown, controlplanev1.HealthUnknownReason, unknown...)
	}
	return condition(name, metav1.ConditionTrue, controlplanev1.HealthyReason)
}

func componentsHealthy(seen *observation) metav1.Condition {
	const name = controlplanev1.ControlPlaneComponentsHealthyCondition
	var unhealthy, unknown []string
	for _, component := range registry.Components.OfCondition(name) {
		state := seen.workloads[component]
		switch {
		case state.complete():
		case seen.mayHave(component, state.wanted()):
			unknown = append(unknown, component)
		default:
			unhealthy = append(unhealthy, workloadProblems(seen, component)...)
		}
	}
	switch {
	case len(unhealthy) > 0:
		return condition(name, metav1.ConditionFalse, controlplanev1.UnhealthyReason, unhealthy...)
	case len(unknown) > 0:
		return condition(name, metav1.ConditionUnknown, controlplanev1.HealthUnknownReason,
			"not every pod of "+strings.Join(unknown, ", ")+" can be observed"+lostNodesNote(seen))
	}
	return condition(name, metav1.ConditionTrue, controlplanev1.HealthyReason)
}

// available is about use, not about perfection: one replica of each component and a quorum of each
// etcd are enough.
func available(s *scope, seen *observation) metav1.Condition {
	const name = controlplanev1.AvailableCondition
	isInitialized := ptr.Deref(s.controlPlane.Status.Initialization.ControlPlaneInitialized, false)
	var missing, unknown []string
	if !isInitialized {
		missing = append(missing, waitingFor(s, stepTenantObjects))
	}
	switch c := certificatesAvailable(s); {
	case c.Status == metav1.ConditionUnknown:
		unknown = append(unknown, c.Message)
	case c.Status == metav1.ConditionFalse && c.Reason != controlplanev1.WaitingReason:
		missing = append(missing, c.Message)
	}
	for _, component := range registry.Components.Names() {
		state := seen.workloads[component]
		switch {
		case state.works():
		case state != nil && seen.mayHave(component, state.needed):
			unknown = append(unknown, "the control plane cannot be observed"+lostNodesNote(seen))
		case state != nil || isInitialized:
			missing = append(missing, workloadProblems(seen, component)...)
		}
	}
	switch {
	case len(missing) > 0:
		return condition(name, metav1.ConditionFalse, controlplanev1.NotAvailableReason, unique(missing)...)
	case len(unknown) > 0:
		return condition(name, metav1.ConditionUnknown, controlplanev1.HealthUnknownReason, unique(unknown)...)
	}
	return condition(name, metav1.ConditionTrue, controlplanev1.AvailableReason)
}

func rollingOut(seen *observation) metav1.Condition {
	var messages []string
	for _, component := range registry.Components.Names() {
		if state := seen.workloads[component]; state != nil && state.current > 0 && state.updated < state.current {
			message := fmt.Sprintf("%s: %d of %d pods are up to date", component, state.updated, state.current)
			if health := seen.etcd[component]; health != nil && health.Rollout != "" {
				message += ": " + health.Rollout
			}
			messages = append(messages, message)
		}
	}
	return progress(controlplanev1.RollingOutCondition, clusterv1.RollingOutReason, clusterv1.NotRollingOutReason, messages)
}

func scalingUp(s *scope, seen *observation) metav1.Condition {
	var messages []string
	for _, component := range registry.Components.Names() {
		if change := gaining(s, seen, component); change != "" {
			messages = append(messages, change)
		} else if state := seen.workloads[component]; state != nil && state.current < state.desired {
			messages = append(messages, fmt.Sprintf("%s: %d of %d pods exist", component, state.current, state.desired))
		}
	}
	return progress(controlplanev1.ScalingUpCondition, clusterv1.ScalingUpReason, clusterv1.NotScalingUpReason, messages)
}

func scalingDown(s *scope, seen *observation) metav1.Condition {
	var messages []string
	for _, component := range registry.Components.Names() {
		if change := losing(s, seen, component); change != "" {
			messages = append(messages, change)
		} else if state := seen.workloads[component]; state != nil && state.current > state.desired {
			messages = append(messages, fmt.Sprintf("%s: %d pods exist, %d are wanted", component, state.current, state.desired))
		}
	}
	return progress(controlplanev1.ScalingDownCondition, clusterv1.ScalingDownReason, clusterv1.NotScalingDownReason, messages)
}

func progress(name, reason, idleReason string, messages []string) metav1.Condition {
	if len(messages) > 0 {
		return condition(name, metav1.ConditionTrue, reason, messages...)
	}
	return condition(name, metav1.ConditionFalse, idleReason)
}

// reconciled says which steps of the last reconcile failed or wait, whatever the state of what runs.
func reconciled(s *scope) metav1.Condition {
	const name = controlplanev1.ReconciledCondition
	var failed, waiting []string
	for _, outcome := range s.outcomes {
		switch {
		case outcome.Problem() != nil:
			failed = append(failed, fmt.Sprintf("%s: %s", outcome.Name, errortext.Steady(outcome.Problem())))
		case outcome.Waiting() != "":
			waiting = append(waiting, outcome.Waiting())
		case outcome.Postponed() != "":
			waiting = append(waiting, outcome.Postponed())
		}
	}
	if s.problem != nil {
		failed = append(failed, s.problem.Error())
	}
	failed = append(failed, slices.Sorted(slices.Values(s.notes))...)
	switch {
	case len(failed) > 0:
		return condition(name, metav1.ConditionFalse, controlplanev1.ReconcileFailedReason, unique(append(failed, waiting...))...)
	case len(waiting) > 0:
		return condition(name, metav1.ConditionFalse, controlplanev1.WaitingReason, unique(waiting)...)
	}
	return condition(name, metav1.ConditionTrue, controlplanev1.ReconciledReason)
}

// movable says why clusterctl move leaves the tenant alone.
func movable(s *scope) metav1.Condition {
	if s.host.Own {
		return condition(controlplanev1.MovableCondition, metav1.ConditionFalse, controlplanev1.HostedByManagementClusterReason,
			"the control plane runs in the management cluster: clusterctl move would delete it here and make an empty one elsewhere, "+
				"so the annotation "+clusterctlv1.BlockMoveAnnotation+" holds it back. A move that was tried leaves its Clusters paused: "+
				"set spec.paused of the Cluster to false")
	}
	return condition(controlplanev1.MovableCondition, metav1.ConditionTrue, controlplanev1.HostedElsewhereReason)
}

func notDeleting() metav1.Condition {
	return condition(controlplanev1.DeletingCondition, metav1.ConditionFalse, clusterv1.NotDeletingReason)
}

// workloadProblems says why a component is not as it should be: each pod that is not ready and of
// which the host cluster hears, else the numbers.
func workloadProblems(seen *observation, component string) []string {
	state := seen.workloads[component]
	if state == nil {
		return []string{component + " is not created yet"}
	}
	var problems []string
	if failure := seen.creationFailures[component]; failure != "" {
		problems = append(problems, component+": "+failure)
	}
	for i := range seen.pods[component] {
		if seen.lost(&seen.pods[component][i]) {
			continue
		}
		if problem := podProblem(&seen.pods[component][i]); problem != "" {
			problems = append(problems, component+": "+problem)
		}
	}
	if len(problems) == 0 {
		if waiting := state.waiting(component, false); waiting != "" {
			return []string{waiting}
		}
		return []string{fmt.Sprintf("%s: %d of %d pods are available and up to date", component, min(state.available, state.updated), state.desired)}
	}
	return problems
}

// waitingFor says what a step waits for: itself, or the first step in the graph that is not done.
func waitingFor(s *scope, step string) string {
	for _, outcome := range s.outcomes {
		switch {
		case outcome.Problem() != nil:
			return fmt.Sprintf("%s: %s", outcome.Name, errortext.Steady(outcome.Problem()))
		case outcome.Waiting() != "":
			return outcome.Waiting()
		case outcome.Name == step:
			return step + " is in progress"
		}
	}
	return step + " has not started"
}

func lostNodesNote(seen *observation) string {
	if len(seen.lostNodes) == 0 {
		return ": nothing answers on the way there"
	}
	return fmt.Sprintf(": the host cluster does not hear from %s; what runs there goes on", strings.Join(seen.lostNodes, ", "))
}

func unique(messages []string) []string {
	seen := map[string]bool{}
	var kept []string
	for _, message := range messages {
		if message != "" && !seen[message] {
			seen[message] = true
			kept = append(kept, message)
		}
	}
	return kept
}

// tenantState is the state that metrics count a control plane under.
func tenantState(controlPlane *controlplanev1.KOKControlPlane) string {
	switch {
	case !controlPlane.DeletionTimestamp.IsZero():
		return "deleting"
	case conditions.IsTrue(controlPlane, clusterv1.PausedCondition):
		return "paused"
	case conditions.IsTrue(controlPlane, controlplanev1.AvailableCondition):
		return "available"
	case conditions.IsFalse(controlPlane, controlplanev1.AvailableCondition):
		return "unavailable"
	}
	return "unknown"
}
