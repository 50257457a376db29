package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// WayBack is the JSON patch of a KOKControlPlane that makes its present spec what a former one was, but for what is never taken back.
func WayBack(present, former *controlplanev1.KOKControlPlaneSpec) ([]jsonpatch.Operation, error) {
	operations, err := difference(present, Back(former, present))
	if err != nil {
		return nil, err
	}
	for i := range operations {
		operations[i].Path = "/spec" + operations[i].Path
	}
	return operations, nil
}

// difference are the operations that make one value another, in the order of their paths. A list is replaced as a whole: an index
// says nothing once the list is another.
func difference(from, to any) ([]jsonpatch.Operation, error) {
	var documents [2]map[string]any
	var raw [2][]byte
	for i, value := range []any{from, to} {
		var err error
		if documents[i], err = documentOf(value); err != nil {
			return nil, err
		}
		if raw[i], err = json.Marshal(documents[i]); err != nil {
			return nil, err
		}
	}
	found, err := jsonpatch.CreatePatch(raw[0], raw[1])
	if err != nil {
		return nil, fmt.Errorf("compare two specs: %w", err)
	}
	for i := range found {
		if list := listIn(documents[0], found[i].Path); list != "" {
			found[i] = jsonpatch.NewOperation("replace", list, valueAt(documents[1], list))
		}
	}
	slices.SortFunc(found, func(a, b jsonpatch.Operation) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(found, func(a, b jsonpatch.Operation) bool { return a.Path == b.Path }), nil
}

// listIn is the first list that a path leads into; empty for none.
func listIn(document any, path string) string {
	steps := strings.Split(path, "/")
	for i, step := range steps[1:] {
		switch at := document.(type) {
		case []any:
			return strings.Join(steps[:i+1], "/")
		case map[string]any:
			document = at[unescape.Replace(step)]
		}
	}
	return ""
}

func valueAt(document any, path string) any {
	for _, step := range stepsOf(path) {
		object, _ := document.(map[string]any)
		document = object[step]
	}
	return document
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// stepsOf are the names that a JSON pointer leads through.
func stepsOf(path string) []string {
	steps := strings.Split(path, "/")[1:]
	for i := range steps {
		steps[i] = unescape.Replace(steps[i])
	}
	return steps
}

var fieldName = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// Field is a JSON pointer into spec as people write it, such as spec.etcd.data.replicas.
func Field(path string) string {
	named := field.NewPath("spec")
	for _, step := range stepsOf(path) {
		if fieldName.MatchString(step) {
			named = named.Child(step)
		} else {
			named = named.Key(step)
		}
	}
	return named.String()
}
