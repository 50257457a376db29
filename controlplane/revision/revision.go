// Package revision keeps the applied rendering of each component as a ControllerRevision, beside
// the hash of the inputs that it was made from. Repair uses that rendering, and a new one is
// adopted only when the inputs change: docs/decisions/rendering.md#the-applied-rendering-is-stored.
// The newest revision is what is applied. A component that takes a former rendering again gets a
// new revision with the same objects: docs/decisions/rendering.md#a-former-rendering-is-taken-again-by-its-number.
package revision

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// relabel puts back the labels of a revision that exists but was not found by them.
func (s *Store) relabel(ctx context.Context, key client.ObjectKey, wanted map[string]string) error {
	present := &appsv1.ControllerRevision{}
	if err := s.Live.Get(ctx, key, present); err != nil {
		return fmt.Errorf("read revision %s: %w", key, err)
	}
	return Relabel(ctx, s.Client, present, wanted)
}

// Relabel puts back the labels by which caches and lists know a revision. It writes nothing if the revision has them.
func Relabel(ctx context.Context, writer client.Client, present *appsv1.ControllerRevision, wanted map[string]string) error {
	labelled := present.DeepCopy()
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	maps.Copy(labelled.Labels, wanted)
	if maps.Equal(labelled.Labels, present.Labels) {
		return nil
	}
	if err := writer.Patch(ctx, labelled, client.MergeFrom(present), client.FieldOwner(names.FieldManager)); err != nil {
		return fmt.Errorf("put back the labels of revision %s: %w", client.ObjectKeyFromObject(present), err)
	}
	return nil
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
