package apply

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

type drift int

const (
	none drift = iota
	// ownFields: a field that was applied has another value, or is not applied yet.
	ownFields
	// foreignFields: another manager owns fields of the spec or the data.
	foreignFields
)

// drift says how a live object differs from what is wanted.
func (a *Applier) drift(wanted *unstructured.Unstructured, live client.Object) (drift, error) {
	for _, entry := range live.GetManagedFields() {
		if foreign, err := ownsContent(entry); err != nil {
			return none, fmt.Errorf("read the managed fields of %s: %w", client.ObjectKeyFromObject(live), err)
		} else if foreign {
			return foreignFields, nil
		}
	}
	current, err := toUnstructured(live)
	if err != nil {
		return none, err
	}
	for field, value := range wanted.Object {
		if field == "apiVersion" || field == "kind" {
			continue
		}
		if !Contains(current.Object[field], value) {
			return ownFields, nil
		}
	}
	return none, nil
}

// ownsContent reports whether an entry says that content was written otherwise than by our apply:
// anything but metadata and status, and not through a subresource (status, scale).
func ownsContent(entry metav1.ManagedFieldsEntry) (bool, error) {
	ours := entry.Manager == names.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply
	if ours || entry.Subresource != "" || entry.FieldsV1 == nil {
		return false, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
		return false, fmt.Errorf("manager %s: %w", entry.Manager, err)
	}
	for field := range fields {
		if field != "f:metadata" && field != "f:status" {
			return true, nil
		}
	}
	return false, nil
}

// takeOver makes the controller the only owner of a live object's content. The apply that follows
// then removes what no rendering names; server-side apply alone leaves others' fields in place.
func (a *Applier) takeOver(ctx context.Context, live client.Object) error {
	upgraded := live.DeepCopyObject().(client.Object)
	entries := upgraded.GetManagedFields()
	managers := sets.New[string]()
	for i := range entries {
		foreign, err := ownsContent(entries[i])
		if err != nil {
			return err
		}
		if foreign {
			entries[i].Operation = metav1.ManagedFieldsOperationUpdate
			managers.Insert(entries[i].Manager)
		}
	}
	upgraded.SetManagedFields(entries)
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(upgraded, managers, names.FieldManager)
	if err != nil {
		return fmt.Errorf("take over fields that others set on %s: %w", client.ObjectKeyFromObject(live), err)
	}
	if err := a.client.Patch(ctx, upgraded, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("take over fields that others set on %s: %w", client.ObjectKeyFromObject(live), err)
	}
	return nil
}
