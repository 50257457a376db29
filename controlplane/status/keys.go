package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// Rotation is how far the rotation of the service account key has come.
type Rotation struct {
	Record rotation.Record
	// Says is what it waits for, for people; empty for nothing.
	Says string
}

// asksForKeys reports whether spec asks for a rotation, maybe one that is over.
func asksForKeys(controlPlane *controlplanev1.KOKControlPlane) bool {
	return len(controlPlane.Spec.KeyRotation.Kinds) > 0
}

// tellsOfKeys reports whether there is a rotation to tell of.
func (in *Input) tellsOfKeys() bool {
	known := in.outcome(names.StepKeyMaterial).Done()
	return asksForKeys(in.ControlPlane) || in.Rotation.Record.UnderWay() ||
		!known && conditions.Get(in.ControlPlane, controlplanev1.KeysRotatingCondition) != nil
}

// keysRotating is how far a rotation has come, what it waits for and for whom.
func keysRotating(in *Input) metav1.Condition {
	const name = controlplanev1.KeysRotatingCondition
	if !in.outcome(names.StepKeyMaterial).Done() {
		return Condition(name, metav1.ConditionUnknown, controlplanev1.KeysUnknownReason, waitingFor(in, names.StepKeyMaterial))
	}
	message := pki.ServiceAccount
	if in.Rotation.Record.Phase != "" {
		message += " (" + string(in.Rotation.Record.Phase) + ", asked for at " + in.Rotation.Record.Asked + ")"
	}
	if in.Rotation.Says != "" {
		message += ": " + in.Rotation.Says
	}
	reason := controlplanev1.KeysPreparingReason
	switch in.Rotation.Record.Phase {
	case rotation.Prepared:
		reason = controlplanev1.KeysPreparedReason
		message += "\n" + unseenTokens
	case rotation.Dropping:
		reason = controlplanev1.KeysCompletingReason
	case "", rotation.Over:
		return Condition(name, metav1.ConditionFalse, controlplanev1.KeysNotRotatingReason, message)
	}
	return Condition(name, metav1.ConditionTrue, reason, message)
}

// unseenTokens names what nobody can see. API servers let tokens of pods live for a year, for programs that read theirs only once.
const unseenTokens = "what cannot be seen: tokens that were handed out, and programs in pods that read their token only when they start, whose tokens end within a year; restart such pods, and hand out tokens anew"
