package main

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// mostChanges is how many different changes are shown.
const mostChanges = 8

// changes counts what changed in control planes, so that a person can see what writes were about.
type changes struct {
	lock sync.Mutex
	seen map[string]int
}

// add counts what changed in one control plane.
func (c *changes) add(before, after *controlplanev1.KOKControlPlane) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	for _, what := range changesOf(before, after) {
		c.seen[what]++
	}
}

// take returns for people what was counted since the last call, the most frequent first.
func (c *changes) take() string {
	c.lock.Lock()
	defer c.lock.Unlock()
	kinds := slices.SortedFunc(maps.Keys(c.seen), func(a, b string) int { return cmp.Or(cmp.Compare(c.seen[b], c.seen[a]), cmp.Compare(a, b)) })
	said := make([]string, 0, len(kinds))
	for _, what := range kinds[:min(len(kinds), mostChanges)] {
		said = append(said, fmt.Sprintf("%d %s", c.seen[what], what))
	}
	c.seen = nil
	return "changes: " + cmp.Or(strings.Join(said, "; "), "none")
}

// changesOf names the conditions that changed, with what they say now, and the other parts of the object that changed. It leaves out the
// names of the control plane and its objects, so that the same change of two tenants has the same text.
func changesOf(before, after *controlplanev1.KOKControlPlane) []string {
	var found []string
	for _, is := range after.Status.Conditions {
		was := conditions.Get(before, is.Type)
		if was == nil || !conditions.HasSameStateExceptObservedGeneration(was, &is) {
			found = append(found, fmt.Sprintf("%s %s %q", is.Type, is.Status, strings.ReplaceAll(is.Message, after.Name, "…")))
		}
	}
	rest := func(of *controlplanev1.KOKControlPlane) *controlplanev1.KOKControlPlane {
		of = of.DeepCopy()
		of.ResourceVersion, of.ManagedFields, of.Status.Conditions = "", nil, nil
		return of
	}
	was, is := rest(before), rest(after)
	for what, same := range map[string]bool{
		"metadata": reflect.DeepEqual(was.ObjectMeta, is.ObjectMeta),
		"spec":     reflect.DeepEqual(was.Spec, is.Spec),
		"status":   reflect.DeepEqual(was.Status, is.Status),
	} {
		if !same {
			found = append(found, what)
		}
	}
	return found
}
