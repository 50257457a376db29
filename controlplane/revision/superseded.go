package revision

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reference names an object of a rendering, in the namespace of the cluster.
type Reference struct {
	metav1.TypeMeta `json:",inline"`
	// Name is the object's name.
	Name string `json:"name"`
}

// Superseded names the objects that older renderings of a component held and the newest one in the cache
// does not. It still names them after they were deleted.
func (s *Store) Superseded(ctx context.Context, cluster client.ObjectKey, component string) ([]Reference, error) {
	revisions, err := s.known(ctx, cluster, component)
	if err != nil || len(revisions) == 0 {
		return nil, err
	}
	_, superseded, err := s.references(component, &revisions[len(revisions)-1])
	return superseded, err
}

// identity is what an object is known by, whatever the version of its kind.
type identity struct {
	kind schema.GroupKind
	name string
}

// Names reports whether it is an object that is referred to.
func (r Reference) Names(object client.Object) bool { return r.identity() == identityOf(object) }

func identityOf(object client.Object) identity {
	return identity{object.GetObjectKind().GroupVersionKind().GroupKind(), object.GetName()}
}

func (r Reference) identity() identity { return identity{r.GroupVersionKind().GroupKind(), r.Name} }

// superseded names the objects that these or earlier revisions held and that a new rendering does not
// hold.
func (s *Store) superseded(component string, revisions []appsv1.ControllerRevision, rendered []client.Object) ([]Reference, error) {
	gone := map[identity]Reference{}
	for i := range revisions {
		held, superseded, err := s.references(component, &revisions[i])
		if err != nil {
			return nil, err
		}
		for _, reference := range append(held, superseded...) {
			gone[reference.identity()] = reference
		}
	}
	for _, object := range rendered {
		delete(gone, identityOf(object))
	}
	return slices.SortedFunc(maps.Values(gone), func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	}), nil
}

// references names the objects that a revision holds, and the superseded ones. Kinds that the component cannot have are
// left out, because the objects named here are deleted.
func (s *Store) references(component string, revision *appsv1.ControllerRevision) (held, superseded []Reference, err error) {
	stored := &struct {
		Items      []metav1.PartialObjectMetadata `json:"items"`
		Superseded []Reference                    `json:"former"`
	}{}
	if err := json.Unmarshal(revision.Data.Raw, stored); err != nil {
		return nil, nil, refused(revision, err.Error())
	}
	for i := range stored.Items {
		held = append(held, Reference{TypeMeta: stored.Items[i].TypeMeta, Name: stored.Items[i].Name})
	}
	return s.held(component, held), s.held(component, stored.Superseded), nil
}

func (s *Store) held(component string, references []Reference) []Reference {
	if s.Holds == nil {
		return references
	}
	return slices.DeleteFunc(references, func(r Reference) bool { return !s.Holds(component, r.TypeMeta, r.Name) })
}
