package status

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
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
		if what := unseen(r, &in.ControlPlane.Spec); r.Record.Phase == rotation.Prepared && what != "" {
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

// unseen names what the manager cannot see that needs the former key of a prepared rotation, or still lacks the new one. It
// returns an empty text if there is nothing of that. For what ends by itself it tells the latest end, as far as spec tells it, counted from
// Record.Since.
func unseen(r Rotation, spec *controlplanev1.KOKControlPlaneSpec) string {
	endsBy := func(life time.Duration) string {
		since, err := time.Parse(time.RFC3339, r.Record.Since)
		if err != nil {
			return "a time that nobody knows"
		}
		return rebuild.Stamp(since.Add(life))
	}
	switch r.Kind {
	case pki.ServiceAccount:
		return unseenTokens(spec.KubeAPIServer.ExtraArgs, endsBy)
	case string(pki.ClusterCA):
		life := max(certs.DefaultCertDuration, durationOf(spec.KubeControllerManager.ExtraArgs, signingDuration))
		return "kubeconfigs and client certificates that were handed out, which end by " + endsBy(life) +
			", and programs outside of the tenant's pods that trust the former CA alone; hand out new ones now"
	case string(pki.FrontProxyCA):
		// What serves by k8s.io/apiserver watches the ConfigMap.
		return "extension API servers that read ConfigMap kube-system/extension-apiserver-authentication only when they start; restart them now, else they refuse API servers, and again when the rotation is over, else they still trust the former CA"
	case string(pki.EtcdCA), string(pki.EtcdEventsCA):
		return "certificates that people took from Secrets of the tenant, for tools of their own that ask etcd; give these tools new ones now, with both CAs"
	}
	return ""
}

// Arguments by which spec says how long what Kubernetes signs is good.
const (
	// signingDuration is of kube-controller-manager, and a year where it is not set.
	signingDuration = "cluster-signing-duration"
	// maxToken and extendToken are of kube-apiserver. Without maxToken a token lives for as long as is asked for. With extendToken, which is true where
	// it is not set, tokens of pods live for a year whatever maxToken is, for programs that read theirs only once.
	maxToken    = "service-account-max-token-expiration"
	extendToken = "service-account-extend-token-expiration"
)

// extendedToken is how long API servers let a token of a pod live (ExpirationExtensionSeconds of Kubernetes).
const extendedToken = 365 * 24 * time.Hour

func unseenTokens(args []controlplanev1.Arg, endsBy func(time.Duration) string) string {
	extended, most := time.Duration(0), durationOf(args, maxToken)
	if extends, err := strconv.ParseBool(argument(args, extendToken)); err != nil || extends {
		extended = extendedToken
	}
	ends := "have the end that was asked for, as --" + maxToken + " is not set"
	switch {
	case most > 0:
		ends = "they end by " + endsBy(max(extended, most))
	case extended > 0:
		ends = "those of pods end by " + endsBy(extended) + ", and those of kubectl create token --duration " + ends
	default:
		ends = "they " + ends
	}
	return "tokens that were handed out, and those of programs in pods that read theirs only when they start: " + ends + "; restart such pods, and hand out tokens anew"
}

// argument is the value of an argument; empty where spec does not set it.
func argument(args []controlplanev1.Arg, name string) string {
	for _, arg := range args {
		if arg.Name == name {
			return ptr.Deref(arg.Value, "")
		}
	}
	return ""
}

// durationOf is the value of an argument; zero where spec does not set it, or sets what is no duration.
func durationOf(args []controlplanev1.Arg, name string) time.Duration {
	d, _ := time.ParseDuration(argument(args, name)) //nolint:errcheck // The program would not start by it.
	return d
}
