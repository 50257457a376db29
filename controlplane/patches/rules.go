package patches

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// clusterAPIDomain is the domain of Cluster API's labels and annotations, and above that of ours.
const clusterAPIDomain = "cluster.x-k8s.io"

// report takes what is wrong with a field.
type report func(path, problem string)

// rule judges what a patch made of a field.
type rule func(path string, rendered, patched any, report report)

// free allows everything.
func free(string, any, any, report) {}

// kept wants a field to stay as it is; instead says what a person can do.
func kept(instead string) rule {
	return func(path string, rendered, patched any, report report) {
		if !reflect.DeepEqual(rendered, patched) {
			report(path, "cannot be patched: "+instead)
		}
	}
}

// only allows changes of the listed fields of a map by their rules, and of no other.
func only(fields map[string]rule) rule {
	can := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
	return func(path string, rendered, patched any, report report) {
		parent := path
		if parent == "" {
			parent = "the object"
		}
		other := kept(fmt.Sprintf("remove it from the patch; of %s these can be named: %s", parent, can))
		judgeFields(path, rendered, patched, report, fields, other)
	}
}

// except allows changes of the listed fields of a map by their rules, and of all others.
func except(fields map[string]rule) rule {
	return func(path string, rendered, patched any, report report) {
		judgeFields(path, rendered, patched, report, fields, free)
	}
}

func judgeFields(path string, rendered, patched any, report report, fields map[string]rule, other rule) {
	before, after := asMap(rendered), asMap(patched)
	for _, field := range sortedUnion(before, after) {
		judge, ok := fields[field]
		if !ok {
			judge = other
		}
		judge(strings.TrimPrefix(path+"."+field, "."), before[field], after[field], report)
	}
}

// added allows new keys of a map; those that are rendered stay as they are.
func added(instead string) rule {
	return func(path string, rendered, patched any, report report) {
		before, after := asMap(rendered), asMap(patched)
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if !reflect.DeepEqual(before[key], after[key]) {
				report(fmt.Sprintf("%s[%s]", path, key), "cannot be patched: "+instead)
			}
		}
	}
}

// appended allows new elements at the end of a list.
func appended(instead string) rule {
	return func(path string, rendered, patched any, report report) {
		before, after := asList(rendered), asList(patched)
		if len(after) < len(before) || !slices.EqualFunc(before, after[:len(before)], reflect.DeepEqual) {
			report(path, "must start with what is rendered: "+instead)
		}
	}
}

// each allows new elements of a list, and changes by a rule of those that are rendered; all of them stay.
// The key tells elements apart.
func each(key string, own rule) rule {
	return func(path string, rendered, patched any, report report) {
		after := map[string]any{}
		for _, element := range asList(patched) {
			id := fmt.Sprint(asMap(element)[key])
			if after[id] != nil {
				report(fmt.Sprintf("%s[%s]", path, id), "is there twice: choose another "+key)
			}
			after[id] = element
		}
		for _, element := range asList(rendered) {
			id := fmt.Sprint(asMap(element)[key])
			at := fmt.Sprintf("%s[%s]", path, id)
			if after[id] == nil {
				report(at, "is missing: a patch must keep it, and its "+key)
				continue
			}
			own(at, element, after[id], report)
		}
	}
}

// marks allows new labels and annotations, except those by which Cluster API, clusterctl and the
// controller find objects.
func marks(path string, rendered, patched any, report report) {
	before, after := asMap(rendered), asMap(patched)
	added("the controller needs it, remove it from the patch")(path, before, after, report)
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, isRendered := before[key]; isReserved(key) && !isRendered {
			report(fmt.Sprintf("%s[%s]", path, key), "cannot be added: names of "+clusterAPIDomain+" are Cluster API's, choose another domain")
		}
	}
}

// isReserved reports whether a label or annotation is Cluster API's or the controller's.
func isReserved(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return domain == clusterAPIDomain || strings.HasSuffix(domain, "."+clusterAPIDomain)
}

func asMap(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

func asList(value any) []any {
	list, _ := value.([]any)
	return list
}

func sortedUnion(a, b map[string]any) []string {
	union := maps.Clone(a)
	if union == nil {
		union = map[string]any{}
	}
	maps.Copy(union, b)
	return slices.Sorted(maps.Keys(union))
}
