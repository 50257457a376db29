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
	content, _, err := split(entry)
	return content.FieldsV1 != nil, err
}

// split parts an entry in two: content that somebody wrote otherwise than by our apply, and the rest, which stays with its manager. A
// part without fields has no FieldsV1.
func split(entry metav1.ManagedFieldsEntry) (content, rest metav1.ManagedFieldsEntry, err error) {
	content, rest = entry, entry
	content.FieldsV1 = nil
	if isOurs(entry) || entry.Subresource != "" || entry.FieldsV1 == nil {
		return content, rest, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
		return content, rest, fmt.Errorf("manager %s: %w", entry.Manager, err)
	}
	kept := map[string]json.RawMessage{}
	for _, field := range []string{"f:metadata", "f:status"} {
		if value, ok := fields[field]; ok {
			kept[field] = value
			delete(fields, field)
		}
	}
	if content.FieldsV1, err = fieldsOf(fields); err != nil {
		return content, rest, err
	}
	rest.FieldsV1, err = fieldsOf(kept)
	return content, rest, err
}

// fieldsOf encodes fields for an entry; it returns nil for no fields.
func fieldsOf(fields map[string]json.RawMessage) (*metav1.FieldsV1, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(fields)
	return metav1.NewFieldsV1(string(raw)), err
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
// server-side apply alone leaves others' fields in place. Others keep their metadata, such as labels and annotations. takeOver reads
// the object from the API server, because the cached one may lack managed fields.
func (a *Applier) takeOver(ctx context.Context, cached client.Object) error {
	upgraded := cached.DeepCopyObject().(client.Object)
	if err := a.live.Get(ctx, client.ObjectKeyFromObject(cached), upgraded); err != nil {
		return err
	}
	if upgraded.GetResourceVersion() != cached.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, cached.GetName(), errLate)
	}
	managers, err := setApart(upgraded)
	if err != nil {
		return err
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(upgraded, managers, names.FieldManager)
	if err != nil {
		return err
	}
	return a.client.Patch(ctx, upgraded, client.RawPatch(types.JSONPatchType, patch))
}

// setApart moves content of others into entries of its own, and returns the managers of these entries. Each gets a name that no other entry
// has, because a manager is taken over with one of its entries alone.
func setApart(object client.Object) (sets.Set[string], error) {
	managers := sets.New[string]()
	var entries []metav1.ManagedFieldsEntry
	for i, entry := range object.GetManagedFields() {
		content, rest, err := split(entry)
		if err != nil {
			return nil, err
		}
		if content.FieldsV1 == nil {
			entries = append(entries, entry)
			continue
		}
		content.Manager, content.Operation = fmt.Sprintf("%s %d", names.FieldManager, i), metav1.ManagedFieldsOperationUpdate
		managers.Insert(content.Manager)
		entries = append(entries, content)
		if rest.FieldsV1 != nil {
			entries = append(entries, rest)
		}
	}
	object.SetManagedFields(entries)
	return managers, nil
}
