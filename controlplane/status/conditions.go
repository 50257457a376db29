package status

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
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Owned are the conditions that the controller sets.
var Owned = []string{
	clusterv1.PausedCondition,
	conditionsv1.AvailableCondition,
	conditionsv1.InitializedCondition,
	conditionsv1.CertificatesAvailableCondition,
	conditionsv1.EtcdClusterHealthyCondition,
	conditionsv1.EtcdRecoveringCondition,
	conditionsv1.EtcdBackedUpCondition,
	conditionsv1.KeysRotatingCondition,
	conditionsv1.ControlPlaneComponentsHealthyCondition,
	conditionsv1.AddonsInstalledCondition,
	conditionsv1.EgressConfinedCondition,
	conditionsv1.RollingOutCondition,
	conditionsv1.ScalingUpCondition,
	conditionsv1.ScalingDownCondition,
	conditionsv1.ReconciledCondition,
	conditionsv1.MovableCondition,
	conditionsv1.DeletingCondition,
}

func setConditions(in *Input, seen *Observation) {
	for _, condition := range []metav1.Condition{
		certificatesAvailable(in),
		initialized(in),
		etcdClusterHealthy(in, seen),
		etcdRecovering(in, seen),
		componentsHealthy(seen),
		addonsInstalled(in),
		egressConfined(in, seen),
		rollingOut(seen),
		scalingUp(in, seen),
		scalingDown(in, seen),
		available(in, seen),
		reconciled(in),
		movable(in),
		notDeleting(),
	} {
		conditions.Set(in.ControlPlane, condition)
	}
	if spec := in.ControlPlane.Spec.Etcd.Backup; spec != nil {
		conditions.Set(in.ControlPlane, backups.Verdict(spec, seen.Backup, seen.Now))
		in.ControlPlane.Status.NewestSnapshot = backups.NewestStatus(seen.Backup, in.ControlPlane.Status.NewestSnapshot, seen.Now)
	} else {
		in.ControlPlane.Status.NewestSnapshot = nil
		conditions.Delete(in.ControlPlane, conditionsv1.EtcdBackedUpCondition)
	}
	if in.tellsOfKeys() {
		conditions.Set(in.ControlPlane, keysRotating(in))
	} else {
		conditions.Delete(in.ControlPlane, conditionsv1.KeysRotatingCondition)
	}
}

// Condition makes a condition of which each message is a line.
func Condition(conditionType string, status metav1.ConditionStatus, reason string, messages ...string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: strings.Join(messages, "\n")}
}

// certificatesAvailable is about key material and the certificates made with it.
func certificatesAvailable(in *Input) metav1.Condition {
	const name = conditionsv1.CertificatesAvailableCondition
	for _, step := range []string{names.StepKeyMaterial, names.StepCertificates, names.StepKubeconfig} {
		outcome := in.outcome(step)
		switch {
		case outcome.Blocked():
			return Condition(name, metav1.ConditionFalse, outcome.Reason(), outcome.Err().Error())
		case outcome.Err() != nil:
			return Condition(name, metav1.ConditionUnknown, conditionsv1.ReconcileFailedReason, errortext.Steady(outcome.Err()))
		case !outcome.Done():
			return Condition(name, metav1.ConditionFalse, conditionsv1.WaitingReason, waitingFor(in, step))
		}
	}
	return Condition(name, metav1.ConditionTrue, conditionsv1.AvailableReason)
}

// initialized never turns back.
func initialized(in *Input) metav1.Condition {
	if ptr.Deref(in.ControlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return Condition(conditionsv1.InitializedCondition, metav1.ConditionTrue, conditionsv1.InitializedReason)
	}
	return Condition(conditionsv1.InitializedCondition, metav1.ConditionFalse, conditionsv1.NotInitializedReason,
		waitingFor(in, names.StepTenantObjects))
}

// etcdClusterHealthy is what etcd says of itself. Where etcd does not answer, its pods may tell; what nobody can tell is
// unknown.
func etcdClusterHealthy(in *Input, seen *Observation) metav1.Condition {
	const name = conditionsv1.EtcdClusterHealthyCondition
	reason := conditionsv1.UnhealthyReason
	var unhealthy, unknown []string
	for _, component := range etcdclusters.Of(in.ControlPlane) {
		health, state := seen.Etcd[component], seen.Workloads[component]
		switch {
		case health != nil && errors.Is(health.Err, ErrNotObserved) && state.Works():
			unknown = append(unknown, component+" was not observed yet")
		case health != nil && health.Answered():
			for _, problem := range health.Problems() {
				unhealthy = append(unhealthy, component+": "+problem)
			}
			if health.Space != "" {
				unhealthy, reason = append(unhealthy, component+": "+health.Space), conditionsv1.SpaceExhaustedReason
			}
			if len(health.Problems()) == 0 && !state.Complete() && seen.lostPods(component) == 0 {
				unhealthy = append(unhealthy, workloadProblems(seen, component)...)
			}
		case health == nil && state.Complete():
			unknown = append(unknown, component+" cannot be observed without certificates; its pods are ready")
		case state.Complete() || seen.mayHave(component, state.Wanted()):
			unknown = append(unknown, fmt.Sprintf("%s cannot be observed%s", component, lostNodesNote(seen)))
		default:
			unhealthy = append(unhealthy, workloadProblems(seen, component)...)
		}
	}
	switch {
	case len(unhealthy) > 0:
		return Condition(name, metav1.ConditionFalse, reason, unhealthy...)
	case len(unknown) > 0:
		return Condition(name, metav1.ConditionUnknown, conditionsv1.HealthUnknownReason, unknown...)
	}
	return Condition(name, metav1.ConditionTrue, conditionsv1.HealthyReason, overQuotas(in)...)
}

// overQuotas are what is to be said of etcds that are well, and may become too large for their volumes.
func overQuotas(in *Input) []string {
	var over []string
	for _, component := range etcdclusters.Of(in.ControlPlane) {
		spec := etcdclusters.Spec(in.ControlPlane, component)
		if note := space.OverQuota(spec.QuotaBackendSize, spec.Storage.Size, "spec.etcd."+etcdclusters.Name(component)); note != "" {
			over = append(over, component+": "+note)
		}
	}
	return over
}

// etcdRecovering is what the operator does about lost members, or waits for. Of an etcd that does not answer nobody can tell.
func etcdRecovering(in *Input, seen *Observation) metav1.Condition {
	const name = conditionsv1.EtcdRecoveringCondition
	var founded []string
	for _, component := range etcdcomponent.Components() {
		if waits := in.Restoring[component]; waits != "" {
			founded = append(founded, fmt.Sprintf("%s is founded anew: %s", component, waits))
		}
	}
	if len(founded) > 0 {
		return Condition(name, metav1.ConditionTrue, conditionsv1.RestoringReason, founded...)
	}
	reason := conditionsv1.RecoveringReason
	var recovering, unknown []string
	for _, component := range etcdcomponent.Components() {
		report := seen.Etcd[component]
		switch {
		case report == nil:
		case report.FactsMissing:
			unknown = append(unknown, component+": "+report.Recovery)
		case report.Recovery != "":
			recovering = append(recovering, component+": "+report.Recovery)
			if report.NeedsDecision {
				reason = conditionsv1.NeedsDecisionReason
			}
		case !report.Answered():
			unknown = append(unknown, component+" does not answer, or was not observed yet")
		}
	}
	if len(recovering) == 0 && len(unknown) > 0 {
		return Condition(name, metav1.ConditionUnknown, conditionsv1.HealthUnknownReason, unknown...)
	}
	return progress(name, reason, conditionsv1.NotRecoveringReason, recovering)
}

func componentsHealthy(seen *Observation) metav1.Condition {
	const name = conditionsv1.ControlPlaneComponentsHealthyCondition
	var unhealthy, unknown []string
	for _, component := range registry.Components.OfCondition(name) {
		state := seen.Workloads[component]
		switch {
		case state.Complete():
		case seen.mayHave(component, state.Wanted()):
			unknown = append(unknown, component)
		default:
			unhealthy = append(unhealthy, workloadProblems(seen, component)...)
		}
	}
	switch {
	case len(unhealthy) > 0:
		return Condition(name, metav1.ConditionFalse, conditionsv1.UnhealthyReason, unhealthy...)
	case len(unknown) > 0:
		return Condition(name, metav1.ConditionUnknown, conditionsv1.HealthUnknownReason,
			"not every pod of "+strings.Join(unknown, ", ")+" can be observed"+lostNodesNote(seen))
	}
	return Condition(name, metav1.ConditionTrue, conditionsv1.HealthyReason)
}

// available is about use, not about perfection: one replica of each component and a quorum of each
// etcd are enough.
func available(in *Input, seen *Observation) metav1.Condition {
	const name = conditionsv1.AvailableCondition
	isInitialized := ptr.Deref(in.ControlPlane.Status.Initialization.ControlPlaneInitialized, false)
	var missing, unknown []string
	if !isInitialized {
		missing = append(missing, waitingFor(in, names.StepTenantObjects))
	}
	switch c := certificatesAvailable(in); {
	case c.Status == metav1.ConditionUnknown:
		unknown = append(unknown, c.Message)
	case c.Status == metav1.ConditionFalse && c.Reason != conditionsv1.WaitingReason:
		missing = append(missing, c.Message)
	}
	for _, component := range registry.Components.Of(&in.ControlPlane.Spec).Names() {
		state := seen.Workloads[component]
		switch {
		case state.Works():
		case state != nil && seen.mayHave(component, state.Needed):
			unknown = append(unknown, "the control plane cannot be observed"+lostNodesNote(seen))
		case state != nil || isInitialized:
			missing = append(missing, workloadProblems(seen, component)...)
		}
	}
	switch {
	case len(missing) > 0:
		return Condition(name, metav1.ConditionFalse, conditionsv1.NotAvailableReason, unique(missing)...)
	case len(unknown) > 0:
		return Condition(name, metav1.ConditionUnknown, conditionsv1.HealthUnknownReason, unique(unknown)...)
	}
	return Condition(name, metav1.ConditionTrue, conditionsv1.AvailableReason)
}

func rollingOut(seen *Observation) metav1.Condition {
	var messages []string
	for _, component := range registry.Components.Names() {
		if state := seen.Workloads[component]; state != nil && state.Current > 0 && state.Updated < state.Current {
			message := fmt.Sprintf("%s: %d of %d pods are up to date", component, state.Updated, state.Current)
			if health := seen.Etcd[component]; health != nil && health.Rollout != "" {
				message += ": " + health.Rollout
			}
			messages = append(messages, message)
		}
	}
	return progress(conditionsv1.RollingOutCondition, clusterv1.RollingOutReason, clusterv1.NotRollingOutReason, messages)
}

func scalingUp(in *Input, seen *Observation) metav1.Condition {
	var messages []string
	for _, component := range registry.Components.Names() {
		if change := gaining(in, seen, component); change != "" {
			messages = append(messages, change)
		} else if state := seen.Workloads[component]; state != nil && state.Current < state.Desired {
			messages = append(messages, fmt.Sprintf("%s: %d of %d pods exist", component, state.Current, state.Desired))
		}
	}
	return progress(conditionsv1.ScalingUpCondition, clusterv1.ScalingUpReason, clusterv1.NotScalingUpReason, messages)
}

func scalingDown(in *Input, seen *Observation) metav1.Condition {
	var messages []string
	for _, component := range registry.Components.Names() {
		if change := losing(in, seen, component); change != "" {
			messages = append(messages, change)
		} else if state := seen.Workloads[component]; state != nil && state.Current > state.Desired {
			messages = append(messages, fmt.Sprintf("%s: %d pods exist, %d are wanted", component, state.Current, state.Desired))
		}
	}
	return progress(conditionsv1.ScalingDownCondition, clusterv1.ScalingDownReason, clusterv1.NotScalingDownReason, messages)
}

func progress(name, reason, idleReason string, messages []string) metav1.Condition {
	if len(messages) > 0 {
		return Condition(name, metav1.ConditionTrue, reason, messages...)
	}
	return Condition(name, metav1.ConditionFalse, idleReason)
}

// reconciled says which steps of the last reconcile failed or wait, whatever the state of what runs.
func reconciled(in *Input) metav1.Condition {
	const name = conditionsv1.ReconciledCondition
	var failed, waiting []string
	for _, outcome := range in.Outcomes {
		switch {
		case outcome.Problem() != nil:
			failed = append(failed, fmt.Sprintf("%s: %s", outcome.Name, errortext.Steady(outcome.Problem())))
		case outcome.Waiting() != "":
			waiting = append(waiting, outcome.Waiting())
		case outcome.Postponed() != "":
			waiting = append(waiting, outcome.Postponed())
		}
	}
	if in.Problem != nil {
		failed = append(failed, in.Problem.Error())
	}
	failed = append(failed, slices.Sorted(slices.Values(in.Notes))...)
	switch {
	case len(failed) > 0:
		return Condition(name, metav1.ConditionFalse, conditionsv1.ReconcileFailedReason, unique(append(failed, waiting...))...)
	case len(waiting) > 0:
		return Condition(name, metav1.ConditionFalse, conditionsv1.WaitingReason, unique(waiting)...)
	}
	return Condition(name, metav1.ConditionTrue, conditionsv1.ReconciledReason)
}

// movable says why clusterctl move leaves the tenant alone.
func movable(in *Input) metav1.Condition {
	if in.OwnHost {
		return Condition(conditionsv1.MovableCondition, metav1.ConditionFalse, conditionsv1.HostedByManagementClusterReason,
			"the control plane runs in the management cluster: clusterctl move would delete it here and make an empty one elsewhere, "+
				"so the annotation "+clusterctlv1.BlockMoveAnnotation+" holds it back. A move that was tried leaves its Clusters paused: "+
				"set spec.paused of the Cluster to false")
	}
	return Condition(conditionsv1.MovableCondition, metav1.ConditionTrue, conditionsv1.HostedElsewhereReason)
}

func notDeleting() metav1.Condition {
	return Condition(conditionsv1.DeletingCondition, metav1.ConditionFalse, clusterv1.NotDeletingReason)
}

// workloadProblems says why a component is not as it should be: each pod that is not ready and of
// which the host cluster hears, else the numbers.
func workloadProblems(seen *Observation, component string) []string {
	state := seen.Workloads[component]
	if state == nil {
		return []string{component + " is not created yet"}
	}
	var problems []string
	if failure := seen.CreationFailures[component]; failure != "" {
		problems = append(problems, component+": "+failure)
	}
	for i := range seen.Pods[component] {
		if seen.lost(&seen.Pods[component][i]) {
			continue
		}
		if problem := hostpods.Problem(&seen.Pods[component][i]); problem != "" {
			problems = append(problems, component+": "+problem)
		}
	}
	if len(problems) == 0 {
		if waiting := state.Waiting(component, false); waiting != "" {
			return []string{waiting}
		}
		return []string{fmt.Sprintf("%s: %d of %d pods are available and up to date", component, min(state.Available, state.Updated), state.Desired)}
	}
	return problems
}

// waitingFor says what a step waits for: itself, or the first step in the graph that is not done.
func waitingFor(in *Input, step string) string {
	for _, outcome := range in.Outcomes {
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

func lostNodesNote(seen *Observation) string {
	if len(seen.LostNodes) == 0 {
		return ": nothing answers on the way there"
	}
	return fmt.Sprintf(": the host cluster does not hear from %s; what runs there goes on", strings.Join(seen.LostNodes, ", "))
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

// WithoutHost says of a control plane whose host cluster cannot be used that nothing is known of what runs there.
func WithoutHost(controlPlane *controlplanev1.KOKControlPlane, reason, message string) {
	for _, unknown := range []string{
		conditionsv1.AvailableCondition, conditionsv1.EtcdClusterHealthyCondition, conditionsv1.EtcdRecoveringCondition,
		conditionsv1.ControlPlaneComponentsHealthyCondition,
	} {
		conditions.Set(controlPlane, Condition(unknown, metav1.ConditionUnknown, reason, message))
	}
	if controlPlane.Spec.Etcd.Backup != nil {
		conditions.Set(controlPlane, Condition(conditionsv1.EtcdBackedUpCondition, metav1.ConditionUnknown, reason, message))
	} else {
		conditions.Delete(controlPlane, conditionsv1.EtcdBackedUpCondition)
	}
	if asksForKeys(controlPlane) || conditions.Get(controlPlane, conditionsv1.KeysRotatingCondition) != nil {
		conditions.Set(controlPlane, Condition(conditionsv1.KeysRotatingCondition, metav1.ConditionUnknown, reason, message))
	}
	conditions.Set(controlPlane, Condition(conditionsv1.ReconciledCondition, metav1.ConditionFalse, reason, message))
}

// Invalid says that nothing is made, for a reason that only a person can resolve.
func Invalid(controlPlane *controlplanev1.KOKControlPlane, reason, message string) {
	conditions.Set(controlPlane, Condition(conditionsv1.AvailableCondition, metav1.ConditionFalse, reason, message))
}

// Deleting says what a deletion waits for.
func Deleting(controlPlane *controlplanev1.KOKControlPlane, message string) {
	conditions.Set(controlPlane, Condition(conditionsv1.DeletingCondition, metav1.ConditionTrue, clusterv1.DeletingReason, message))
	conditions.Set(controlPlane, Condition(conditionsv1.AvailableCondition, metav1.ConditionFalse, clusterv1.DeletingReason, "the control plane is being deleted"))
}
