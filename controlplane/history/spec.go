package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// recorded is what a revision keeps of a spec, with its keys in order, so that the same spec has the same bytes in every release.
func recorded(spec *controlplanev1.KOKControlPlaneSpec) (json.RawMessage, error) {
	kept := spec.DeepCopy()
	kept.Replicas = nil
	kept.ControlPlaneEndpoint = controlplanev1.APIEndpoint{}
	kept.Hosting.Ports = controlplanev1.PortBlock{}
	document, err := documentOf(kept)
	if err != nil {
		return nil, err
	}
	return json.Marshal(document)
}

// hashOf is the hash of a recorded spec.
func hashOf(spec json.RawMessage) string {
	sum := sha256.Sum256(spec)
	return hex.EncodeToString(sum[:])
}

// Back is a former spec with what is never taken back, as the present one has it.
func Back(former, present *controlplanev1.KOKControlPlaneSpec) *controlplanev1.KOKControlPlaneSpec {
	back := former.DeepCopy()
	back.Replicas = present.Replicas
	back.ControlPlaneEndpoint = present.ControlPlaneEndpoint
	back.Hosting.Ports = present.Hosting.Ports
	back.Etcd.Restore, back.Etcd.GivenUp = present.Etcd.Restore, present.Etcd.GivenUp
	back.Etcd.Events.FoundAnewAt = present.Etcd.Events.FoundAnewAt
	back.Rollout, back.KeyRotation = present.Rollout, present.KeyRotation
	return back
}

// documentOf is a value as JSON has it.
func documentOf(value any) (document map[string]any, err error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write spec as JSON: %w", err)
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("read spec from JSON: %w", err)
	}
	return document, nil
}
