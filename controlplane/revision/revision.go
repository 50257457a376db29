// Package revision keeps the applied rendering of each component as a ControllerRevision, beside
// the hash of the inputs that it was made from. Repair uses that rendering, and a new one is
// adopted only when the inputs change: docs/decisions/rendering.md#the-applied-rendering-is-stored.
// The newest revision is what is applied. A component that takes a former rendering again gets a
// new revision with the same objects: docs/decisions/rendering.md#a-former-rendering-is-taken-again-by-its-number.
package revision

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const (
	// ComponentLabel names the component that a revision is of. It is not the label that pods are
	// selected by: StatefulSets and DaemonSets count revisions that match theirs as their own.
	ComponentLabel = "kok.cluster.x-k8s.io/revision-of"

	// Limit is the number of revisions that are kept of each component, beside one that is named to be taken again.
	Limit = 10
)

// Store reads and writes revisions in the host cluster.
type Store struct {
	// Client writes; its reads may come from a cache. Where this package speaks of the cache, Known takes its place.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Owner, when set, is made the controller of new revisions.
	Owner *metav1.OwnerReference
	// Version is the Kubernetes version that new revisions are rendered for.
	Version string
	// Judge says what is wrong with the objects of a component's revision, because others than the manager may write
	// ControllerRevisions. Nil lets everything pass.
	Judge func(component string, objects []client.Object) []string
	// Holds reports whether a component may have an object of a kind and name; nil lets everything pass.
	Holds func(component string, kind metav1.TypeMeta, name string) bool
	// Adopted, when set, is called for each new revision that takes the place of the one before.
	Adopted func(Adoption)
	// User is the UID of the pods of new revisions. 0 is the UID that all older tenants share.
	User int64
	// Spec is the revision of spec that new revisions come from.
	Spec Spec
	// Provider is the version of the provider that renders.
	Provider string
	// Again are the numbers of the revisions whose renderings are to be taken again, by component.
	Again map[string]int64
	// Known are the revisions that were read before, in place of those that Client has; nil makes the store list them.
	Known Revisions

	lock sync.Mutex
	// written are the revisions that this store added to Known.
	written Revisions
}

// Revisions are those of one tenant, by component, from the oldest to the newest.
type Revisions map[string][]appsv1.ControllerRevision

// List reads the revisions of all components at once.
func List(ctx context.Context, reader client.Reader, cluster client.ObjectKey) (Revisions, error) {
	list := &appsv1.ControllerRevisionList{}
	// StatefulSets and DaemonSets have revisions of their own, which have the tenant's labels too.
	if err := reader.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels(names.Labels(cluster)),
		client.HasLabels{ComponentLabel}); err != nil {
		return nil, fmt.Errorf("list the revisions of cluster %s: %w", cluster, err)
	}
	slices.SortFunc(list.Items, byNumber)
	revisions := Revisions{}
	for _, revision := range list.Items {
		component := revision.Labels[ComponentLabel]
		revisions[component] = append(revisions[component], revision)
	}
	return revisions, nil
}

// Spec names a revision of spec.
type Spec struct {
	Name string
	// Hash is of the spec that it has.
	Hash string
}

// Specs are the revisions of spec that these come from, in no order.
func (r Revisions) Specs() []Spec {
	var all []Spec
	for _, revisions := range r {
		for i := range revisions {
			if stored, err := contentOf(&revisions[i]); err == nil && stored.Spec != "" {
				all = append(all, Spec{stored.Spec, stored.SpecHash})
			}
		}
	}
	return all
}

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

func byNumber(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) }

// known are the revisions of a component that were read before, with those that the store wrote since.
func (s *Store) known(ctx context.Context, cluster client.ObjectKey, component string) ([]appsv1.ControllerRevision, error) {
	if s.Known == nil {
		return list(ctx, s.Client, cluster, component)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Concat(s.Known[component], s.written[component]), nil
}

func (s *Store) wrote(component string, revision *appsv1.ControllerRevision) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.written == nil {
		s.written = Revisions{}
	}
	s.written[component] = append(s.written[component], *revision)
}

// Adoption is a new revision of a component that takes the place of the one before.
type Adoption struct {
	// Component has the revision of that name and number.
	Component, Name string
	Number          int64
	// From and To are the Kubernetes versions of both; From is empty when an older program wrote it.
	From, To string
	// Due is true when the one before is older than the rollout's time.
	Due bool
	// Again is the number of the revision whose objects the component takes again; 0 where it was rendered.
	Again int64
}

// content is what a revision holds. It is immutable: the API server refuses changes of it.
type content struct {
	// Inputs is the hash of the inputs that Items were rendered from.
	Inputs string `json:"inputs"`
	Items  []any  `json:"items"`
	// Superseded are the objects that older revisions hold and this one does not. Their stored key is older than the word.
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

// Rendering gives the objects of a component: the stored ones while the newest revision was made from
// inputs with the same hash, and for rolloutAfter or a later time; else those that render makes, which
// become the newest revision. rolloutAfter is zero, or has passed. Where Again names a revision that was made
// from the same inputs, its objects take the place of both.
func (s *Store) Rendering(ctx context.Context, cluster client.ObjectKey, component, inputs string, rolloutAfter time.Time, render func() ([]client.Object, error)) ([]client.Object, error) {
	revisions, err := s.known(ctx, cluster, component)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(revisions, s.wanted(cluster, component, inputs, rolloutAfter), s.judge(component))
	if err != nil {
		return nil, err
	}
	if chosen.keep {
		return s.objects(&revisions[len(revisions)-1], &chosen.newest, component)
	}
	content, err := s.contentFor(component, revisions, chosen, inputs, rolloutAfter, render)
	if err != nil {
		return nil, err
	}
	var number int64 = 1
	if n := len(revisions); n > 0 {
		number = revisions[n-1].Revision + 1
	}
	created, err := s.create(ctx, cluster, component, number, content)
	if err != nil {
		return nil, err
	}
	if s.Adopted != nil && len(revisions) > 0 && !chosen.same {
		s.Adopted(Adoption{
			Component: component, Name: created.Name, Number: number, From: chosen.newest.Version, To: s.Version, Due: chosen.due, Again: content.Again,
		})
	}
	if err := s.prune(ctx, revisions, name(cluster, component, s.Again[component])); err != nil {
		return nil, err
	}
	return s.decode(created, component)
}

// contentFor is what the next revision of a component holds.
func (s *Store) contentFor(component string, revisions []appsv1.ControllerRevision, chosen choice, inputs string, rolloutAfter time.Time, render func() ([]client.Object, error)) (content, error) {
	objects, err := s.objectsFor(component, chosen, render)
	if err != nil {
		return content{}, err
	}
	superseded, err := s.superseded(component, revisions, objects)
	if err != nil {
		return content{}, err
	}
	if chosen.again == nil {
		return s.newContent(inputs, objects, superseded, rolloutAfter), nil
	}
	// A clock that was ahead may have seen a later time pass. For that time nothing is to be rendered again.
	if former := chosen.newest.RolloutAfter; former != nil && former.After(rolloutAfter) {
		rolloutAfter = former.Time
	}
	made := s.newContent(inputs, objects, superseded, rolloutAfter)
	return made, made.copyFrom(chosen.again)
}

func (s *Store) objectsFor(component string, chosen choice, render func() ([]client.Object, error)) ([]client.Object, error) {
	if chosen.again != nil {
		return s.decode(chosen.again, component)
	}
	objects, err := render()
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", component, err)
	}
	return objects, nil
}

// Current reports whether the newest revision that the cache knows is what Rendering would give for inputs with one
// of these hashes.
func (s *Store) Current(ctx context.Context, cluster client.ObjectKey, component string, rolloutAfter time.Time, inputs ...string) (bool, error) {
	revisions, err := s.known(ctx, cluster, component)
	if err != nil {
		return false, err
	}
	for _, hash := range inputs {
		chosen, err := choose(revisions, s.wanted(cluster, component, hash, rolloutAfter), s.judge(component))
		if chosen.keep || err != nil {
			return chosen.keep, err
		}
	}
	return false, nil
}

// create writes a revision. Its number is in its name: a second writer with a stale cache fails
// instead of forking. A revision of that name that lost its labels gets them back.
func (s *Store) create(ctx context.Context, cluster client.ObjectKey, component string, number int64, content content) (*appsv1.ControllerRevision, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("store the rendering of %s: %w", component, err)
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name(cluster, component, number),
			Namespace: cluster.Namespace,
			Labels:    labels(cluster, component),
		},
		Revision: number,
		Data:     runtime.RawExtension{Raw: data},
	}
	if s.Owner != nil {
		revision.OwnerReferences = []metav1.OwnerReference{*s.Owner}
	}
	err = s.Client.Create(ctx, revision, client.FieldOwner(names.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		if relabelErr := s.relabel(ctx, client.ObjectKeyFromObject(revision), revision.Labels); relabelErr != nil {
			return nil, relabelErr
		}
	}
	if err != nil {
		return nil, fmt.Errorf("store revision %d of %s: %w", number, component, err)
	}
	s.wrote(component, revision)
	return revision, nil
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

// relabel puts back the labels of a revision that exists but was not found by them.
func (s *Store) relabel(ctx context.Context, key client.ObjectKey, wanted map[string]string) error {
	present := &appsv1.ControllerRevision{}
	if err := s.Live.Get(ctx, key, present); err != nil {
		return fmt.Errorf("read revision %s: %w", key, err)
	}
	labelled := present.DeepCopy()
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	maps.Copy(labelled.Labels, wanted)
	if maps.Equal(labelled.Labels, present.Labels) {
		return nil
	}
	if err := s.Client.Patch(ctx, labelled, client.MergeFrom(present), client.FieldOwner(names.FieldManager)); err != nil {
		return fmt.Errorf("put back the labels of revision %s: %w", key, err)
	}
	return nil
}

// Newest gives the objects of the newest revision that the cache knows; none when there is no revision yet.
func (s *Store) Newest(ctx context.Context, cluster client.ObjectKey, component string) ([]client.Object, error) {
	revisions, err := s.known(ctx, cluster, component)
	if err != nil || len(revisions) == 0 {
		return nil, err
	}
	return s.decode(&revisions[len(revisions)-1], component)
}

// Kept is Newest, read from the API server, for callers that apply it. A cache may not have the revision
// that was just adopted, and applying the one before would undo it.
func (s *Store) Kept(ctx context.Context, cluster client.ObjectKey, component string) ([]client.Object, error) {
	newest, err := s.kept(ctx, cluster, component)
	if newest == nil || err != nil {
		return nil, err
	}
	return s.decode(newest, component)
}

// RenderedVersion is the Kubernetes version that the newest revision was rendered for, as the API server has it; empty
// when there is no revision, or an older program wrote it.
func (s *Store) RenderedVersion(ctx context.Context, cluster client.ObjectKey, component string) (string, error) {
	newest, err := s.kept(ctx, cluster, component)
	if newest == nil || err != nil {
		return "", err
	}
	stored, err := contentOf(newest)
	if err != nil {
		return "", err
	}
	return stored.Version, nil
}

// RenderedSince is when the component took the version of its newest revision that the cache knows; zero when there is
// no revision of that version.
func (s *Store) RenderedSince(ctx context.Context, cluster client.ObjectKey, component, version string) (since time.Time, err error) {
	revisions, err := s.known(ctx, cluster, component)
	if err != nil {
		return since, err
	}
	for i := range slices.Backward(revisions) {
		stored, err := contentOf(&revisions[i])
		if err != nil || stored.Version != version {
			return since, err
		}
		since = revisions[i].CreationTimestamp.Time
	}
	return since, nil
}

// RenderedUser is the UID of the pods of the newest revision, 0 when an older manager wrote it. The cache may lack the
// newest revision, but all revisions have the same UID. known is false when there is no revision.
func (s *Store) RenderedUser(ctx context.Context, cluster client.ObjectKey, component string) (user int64, known bool, err error) {
	revisions, err := s.known(ctx, cluster, component)
	if err == nil && len(revisions) == 0 {
		revisions, err = list(ctx, s.Live, cluster, component)
	}
	if err != nil || len(revisions) == 0 {
		return 0, false, err
	}
	newest := &revisions[len(revisions)-1]
	stored := &storedContent{}
	if err := json.Unmarshal(newest.Data.Raw, stored); err != nil {
		return 0, false, fmt.Errorf("read revision %s: %w", client.ObjectKeyFromObject(newest), err)
	}
	return stored.User, true, nil
}

// kept is the newest revision as the API server has it; nil for none.
func (s *Store) kept(ctx context.Context, cluster client.ObjectKey, component string) (*appsv1.ControllerRevision, error) {
	revisions, err := s.known(ctx, cluster, component)
	if err == nil && len(revisions) == 0 {
		revisions, err = list(ctx, s.Live, cluster, component)
	}
	if err != nil || len(revisions) == 0 {
		return nil, err
	}
	newest := &revisions[len(revisions)-1]
	for {
		next, key := &appsv1.ControllerRevision{}, client.ObjectKey{Namespace: cluster.Namespace, Name: name(cluster, component, newest.Revision+1)}
		err := s.Live.Get(ctx, key, next)
		if apierrors.IsNotFound(err) {
			return newest, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read revision %s: %w", key, err)
		}
		newest = next
	}
}

// name tells the number of a revision, so that one request says whether there is a newer one.
func name(cluster client.ObjectKey, component string, number int64) string {
	return fmt.Sprintf("%s-%d", names.Object(cluster.Name, component), number)
}

func labels(cluster client.ObjectKey, component string) map[string]string {
	labels := names.Labels(cluster)
	labels[ComponentLabel] = component
	return labels
}

func list(ctx context.Context, reader client.Reader, cluster client.ObjectKey, component string) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := reader.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels(labels(cluster, component))); err != nil {
		return nil, fmt.Errorf("list the revisions of %s: %w", component, err)
	}
	slices.SortFunc(list.Items, byNumber)
	return list.Items, nil
}

// prune deletes the oldest revisions, but for the one of a name.
func (s *Store) prune(ctx context.Context, revisions []appsv1.ControllerRevision, kept string) error {
	for i := 0; i < len(revisions)-Limit+1; i++ {
		if revisions[i].Name == kept {
			continue
		}
		if err := s.Client.Delete(ctx, &revisions[i]); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete old revision %s: %w", client.ObjectKeyFromObject(&revisions[i]), err)
		}
	}
	return nil
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
