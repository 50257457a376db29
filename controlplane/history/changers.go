package history

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// unrecorded are the fields of spec that are in no revision.
var unrecorded = fieldpath.NewSet(
	fieldpath.MakePathOrDie("spec", "replicas"), fieldpath.MakePathOrDie("spec", "controlPlaneEndpoint"), fieldpath.MakePathOrDie("spec", "hosting", "ports"),
)

// changers returns the field managers that own any of these paths of spec, and the time when one of them wrote last. Nobody owns a field
// that was taken away, or that is a default of the API: then nobody knows who changed it.
func changers(entries []metav1.ManagedFieldsEntry, paths []string) (by []string, at time.Time) {
	for _, entry := range entries {
		if entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			continue // It is of another program, and says nothing that can be read.
		}
		set = set.RecursiveDifference(unrecorded)
		if !slices.ContainsFunc(paths, func(path string) bool { return has(set, append([]string{"spec"}, stepsOf(path)...)) }) {
			continue
		}
		by = append(by, entry.Manager)
		if entry.Time != nil && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	slices.Sort(by)
	return slices.Compact(by), at
}

// has reports whether a manager that owns the fields of a set owns this field, or one below it. Owning the parent proves nothing: whoever
// created a map owns the map, and others may own its keys.
func has(set *fieldpath.Set, steps []string) bool {
	owned := false
	for _, step := range steps {
		element := fieldpath.PathElement{FieldName: &step}
		owned = set.Members.Has(element)
		set = set.WithPrefix(element)
	}
	return owned || !set.Empty()
}
