package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// errLate says why takeOver stops: the cache is behind the API server, so others may have written meanwhile.
var errLate = errors.New("the cache is late")

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
	if isOurs(entry) || entry.Subresource != "" || entry.FieldsV1 == nil {
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

// isOurs reports whether an entry says what our apply wrote.
func isOurs(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == names.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply
}

// Trim cuts an applied object down to what a cache keeps. It drops the names of the fields that our apply or a subresource wrote: managed
// fields consist mostly of these names, and no code reads them from the cache.
func Trim(object any) (any, error) {
	live, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	entries := live.GetManagedFields()
	for i := range entries {
		if isOurs(entries[i]) || entries[i].Subresource != "" {
			entries[i].FieldsV1 = nil
		}
	}
	live.SetManagedFields(entries)
	return live, nil
}

// takeOver makes the controller the only owner of a live object's content. The apply that follows then removes what no rendering names;
// server-side apply alone leaves others' fields in place. takeOver reads the object from the API server, because the cached one may lack
// managed fields.
func (a *Applier) takeOver(ctx context.Context, cached client.Object) error {
	upgraded := cached.DeepCopyObject().(client.Object)
	if err := a.live.Get(ctx, client.ObjectKeyFromObject(cached), upgraded); err != nil {
		return err
	}
	if upgraded.GetResourceVersion() != cached.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, cached.GetName(), errLate)
	}
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
		return err
	}
	return a.client.Patch(ctx, upgraded, client.RawPatch(types.JSONPatchType, patch))
}
