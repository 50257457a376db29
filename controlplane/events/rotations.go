package events

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// Reasons of Events about rotations of keys; docs/reference/events.md lists them.
const (
	reasonRotationStarted    = "KeyRotationStarted"
	reasonRotationPrepared   = "KeyRotationPrepared"
	reasonRotationCompleting = "KeyRotationCompleting"
	reasonRotationFinished   = "KeyRotationFinished"
	reasonRotationWentBack   = "KeyRotationWentBack"
)

// phaseOf makes the Event about a phase of a rotation. The phase Using gets an Event only if the rotation went back to it: docs/keys.md
// describes Trusting and Using as one.
func phaseOf(r Rotated) []Event {
	tell := func(reason, note string) []Event {
		// Kinds rotate at the same time, and the action tells them apart.
		return []Event{normal(reason, "Rotate-"+string(r.Kind), fmt.Sprintf("The %s is in the phase %s of its rotation: %s", r.What, r.To, note))}
	}
	switch r.To {
	case rotation.Trusting:
		return tell(reasonRotationStarted, "pods come to trust the new one beside the former one")
	case rotation.Using:
		if r.From != rotation.Dropping {
			return nil
		}
		back := tell(reasonRotationWentBack, "it went back from Dropping, as something was found that would be lost without the former one")
		back[0].kind = corev1.EventTypeWarning
		return back
	case rotation.Prepared:
		return tell(reasonRotationPrepared, "pods use the new one, and trust the former one until a person asks for the end")
	case rotation.Dropping:
		return tell(reasonRotationCompleting, "pods come to trust the new one alone")
	case rotation.Over:
		return tell(reasonRotationFinished, "no pod trusts the former one any more")
	}
	return nil
}
