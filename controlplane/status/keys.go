package status

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// Rotation is how far the rotation of a kind of key has come.
type Rotation struct {
	// Kind is what people call the kind of key.
	Kind string
	// Asked is the kind as spec names it.
	Asked  controlplanev1.KeyKind
	Record rotation.Record
	// Says is what it waits for, for people; empty for nothing.
	Says string
}

// asksForKeys reports whether spec asks for a rotation, maybe one that is over.
func asksForKeys(controlPlane *controlplanev1.KOKControlPlane) bool {
	return len(controlPlane.Spec.KeyRotation.Kinds) > 0
}

// KnowsKeys reports whether the reconcile knows how far rotations have come.
func (in *Input) KnowsKeys() bool { return in.outcome(names.StepKeyMaterial).Done() }

// tellsOfKeys reports whether there is a rotation to tell of.
func (in *Input) tellsOfKeys() bool {
	return asksForKeys(in.ControlPlane) || slices.ContainsFunc(in.Rotations, func(r Rotation) bool { return r.Record.UnderWay() }) ||
		!in.KnowsKeys() && conditions.Get(in.ControlPlane, conditionsv1.KeysRotatingCondition) != nil
}

// keysRotating says how far rotations have come and what they wait for, in a line for each kind.
func keysRotating(in *Input) metav1.Condition {
	const name = conditionsv1.KeysRotatingCondition
	if !in.KnowsKeys() {
		return Condition(name, metav1.ConditionUnknown, conditionsv1.KeysUnknownReason, waitingFor(in, names.StepKeyMaterial))
	}
	reason, lines := "", []string(nil)
	for _, r := range in.Rotations {
		lines = append(lines, r.line())
		if what := unseen[r.Kind]; r.Record.Phase == rotation.Prepared && what != "" {
			lines = append(lines, "what cannot be seen: "+what)
		}
	}
	for _, moves := range reasonsOfKeys {
		if reason == "" && slices.ContainsFunc(in.Rotations, func(r Rotation) bool { return slices.Contains(moves.phases, r.Record.Phase) }) {
			reason = moves.reason
		}
	}
	message := strings.Join(lines, "\n")
	if reason == "" {
		return Condition(name, metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, message)
	}
	return Condition(name, metav1.ConditionTrue, reason, message)
}

// reasonsOfKeys are the reasons by the phases of kinds. Where kinds are in several phases the first reason counts.
var reasonsOfKeys = []struct {
	phases []rotation.Phase
	reason string
}{
	{[]rotation.Phase{rotation.Trusting, rotation.Using}, conditionsv1.KeysPreparingReason},
	{[]rotation.Phase{rotation.Dropping}, conditionsv1.KeysCompletingReason},
	{[]rotation.Phase{rotation.Prepared}, conditionsv1.KeysPreparedReason},
}

func (r Rotation) line() string {
	line := r.Kind
	if r.Record.Phase != "" {
		line += " (" + string(r.Record.Phase) + ", asked for at " + r.Record.Asked + ")"
	}
	if r.Says != "" {
		line += ": " + r.Says
	}
	return line
}

// unseen names what needs the former key, or the new one, and nobody can see, by the kind of key.
var unseen = map[string]string{
	// API servers let tokens of pods live for a year, for programs that read theirs only once.
	pki.ServiceAccount: "tokens that were handed out, and programs in pods that read their token only when they start, whose tokens end within a year; restart such pods, and hand out tokens anew",
	// kube-controller-manager signs for a year at the most.
	string(pki.ClusterCA): "kubeconfigs and client certificates that were handed out, which end within a year, and programs outside of the tenant's pods that trust the former CA alone; hand out new ones now",
	// What serves by k8s.io/apiserver watches the ConfigMap.
	string(pki.FrontProxyCA): "extension API servers that read ConfigMap kube-system/extension-apiserver-authentication only when they start; restart them now, or they refuse API servers, and again when the rotation is over, or they trust the former CA",
	string(pki.EtcdCA):       byPeople,
	string(pki.EtcdEventsCA): byPeople,
}

// byPeople is what nobody can see for a CA of etcd.
const byPeople = "certificates that people took from Secrets of the tenant, for tools of their own that ask etcd; give these tools new ones now, with both CAs"
