package revision

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Stored is what a revision of a component holds, for people.
type Stored struct {
	// Spec is the name of the revision of spec that Objects come from; empty where an older program wrote it.
	Spec string
	// Version is the Kubernetes version that Objects were rendered for.
	Version string
	// Provider is the version of the provider that rendered Objects; empty where an older program wrote it.
	Provider string
	// Inputs is the hash of the inputs that Objects were rendered from.
	Inputs string
	// Again is the number of the revision whose Objects were taken again; 0 where they were rendered for this one.
	Again int64
	// Objects are those of the component.
	Objects []unstructured.Unstructured
}

// Read gives what a revision of a component holds. Nobody has judged its objects.
func Read(revision *appsv1.ControllerRevision) (*Stored, error) {
	stored, err := contentOf(revision)
	if err != nil {
		return nil, err
	}
	return &Stored{
		Spec: stored.Spec, Version: stored.Version, Provider: stored.Provider, Inputs: stored.Inputs, Again: stored.Again, Objects: stored.Items,
	}, nil
}

// content is what a revision holds. It is immutable: the API server refuses changes of it.
type content struct {
	// Inputs is the hash of the inputs that Items were rendered from.
	Inputs string `json:"inputs"`
	Items  []any  `json:"items"`
	// Superseded are the objects that older revisions hold and this one does not. The key in JSON is former, their earlier name.
	Superseded []Reference `json:"former,omitempty"`
	// RolloutAfter is the rollout's time that Items were rendered after; nil for none.
	RolloutAfter *metav1.Time `json:"rolloutAfter,omitempty"`
	// Version is the Kubernetes version that Items were rendered for; older programs wrote none.
	Version string `json:"version,omitempty"`
	// User is the UID of the pods. Older managers wrote none: then it is the UID that all older
	// tenants share.
	User int64 `json:"user,omitempty"`
	// Spec is the name of the revision of spec that Items come from, and SpecHash its hash; older programs wrote none.
	Spec     string `json:"spec,omitempty"`
	SpecHash string `json:"specHash,omitempty"`
	// Provider is the version of the provider that rendered Items; older programs wrote none.
	Provider string `json:"provider,omitempty"`
	// Again is the number of the revision that Items were copied from; 0 for none.
	Again int64 `json:"again,omitempty"`
}

func (s *Store) newContent(inputs string, objects []client.Object, superseded []Reference, rolloutAfter time.Time) content {
	made := content{
		Inputs: inputs, Version: s.Version, User: s.User, Spec: s.Spec.Name, SpecHash: s.Spec.Hash, Provider: s.Provider,
		Items: make([]any, 0, len(objects)), Superseded: superseded,
	}
	for _, object := range objects {
		made.Items = append(made.Items, object)
	}
	if !rolloutAfter.IsZero() {
		made.RolloutAfter = &metav1.Time{Time: rolloutAfter}
	}
	return made
}

// copyFrom gives a revision's content the objects of another, byte for byte, and what is told of how they were rendered.
func (c *content) copyFrom(former *appsv1.ControllerRevision) error {
	stored := &struct {
		Items    []json.RawMessage `json:"items"`
		User     int64             `json:"user"`
		Provider string            `json:"provider"`
	}{}
	if err := json.Unmarshal(former.Data.Raw, stored); err != nil {
		return refused(former, err.Error())
	}
	c.Items = make([]any, 0, len(stored.Items))
	for _, item := range stored.Items {
		c.Items = append(c.Items, item)
	}
	c.User, c.Provider, c.Again = stored.User, stored.Provider, former.Revision
	return nil
}

// isFor reports whether a revision was made for a rollout's time or a later one.
func isFor(revision *appsv1.ControllerRevision, stored *storedContent, rolloutAfter time.Time) bool {
	return !renderedFor(revision, stored).Before(rolloutAfter)
}

// renderedFor is the rollout's time that a revision was made for. One that was made for none counts by its
// age. Only that is by the API server's clock, which may be behind: a revision that was just made for a
// rollout must not look older than the rollout.
func renderedFor(revision *appsv1.ControllerRevision, stored *storedContent) time.Time {
	if stored.RolloutAfter != nil {
		return stored.RolloutAfter.Time
	}
	return revision.CreationTimestamp.Time
}

// storedContent is content as it is read.
type storedContent struct {
	Inputs       string                      `json:"inputs"`
	Items        []unstructured.Unstructured `json:"items"`
	RolloutAfter *metav1.Time                `json:"rolloutAfter"`
	Version      string                      `json:"version"`
	User         int64                       `json:"user"`
	Spec         string                      `json:"spec"`
	SpecHash     string                      `json:"specHash"`
	Provider     string                      `json:"provider"`
	Again        int64                       `json:"again"`
}

// contentOf gives a revision's content, whatever it is.
func contentOf(revision *appsv1.ControllerRevision) (*storedContent, error) {
	stored := &storedContent{}
	if err := json.Unmarshal(revision.Data.Raw, stored); err != nil {
		return nil, refused(revision, err.Error())
	}
	return stored, nil
}

// decode gives a revision's objects, if they are such as the component may have.
func (s *Store) decode(revision *appsv1.ControllerRevision, component string) ([]client.Object, error) {
	stored, err := contentOf(revision)
	if err != nil {
		return nil, err
	}
	return s.objects(revision, stored, component)
}

func (s *Store) objects(revision *appsv1.ControllerRevision, stored *storedContent, component string) ([]client.Object, error) {
	var objects []client.Object
	for i := range stored.Items {
		typed, err := s.Client.Scheme().New(stored.Items[i].GroupVersionKind())
		if err != nil {
			return nil, refused(revision, err.Error())
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Items[i].Object, typed); err != nil {
			return nil, refused(revision, err.Error())
		}
		object, ok := typed.(client.Object)
		if !ok {
			return nil, refused(revision, fmt.Sprintf("%s is no kind of objects", stored.Items[i].GetKind()))
		}
		objects = append(objects, object)
	}
	if s.Judge != nil {
		if problems := s.Judge(component, objects); len(problems) > 0 {
			return nil, refused(revision, strings.Join(problems, "; "))
		}
	}
	return objects, nil
}

// refused is about a revision that the manager did not write, or not like this.
func refused(revision *appsv1.ControllerRevision, problem string) error {
	return fmt.Errorf("ControllerRevision %s is not applied: %s: find out who wrote it, and delete it; the manager goes on with the one before, or renders anew",
		client.ObjectKeyFromObject(revision), problem)
}
