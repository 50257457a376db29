package revision

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

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

// OfProvider selects the revisions that the provider makes. StatefulSets and DaemonSets make revisions of the provider's pods, too, with
// the tenant's labels: it leaves those out.
func OfProvider() k8slabels.Selector {
	return (&client.ListOptions{}).ApplyOptions([]client.ListOption{
		client.MatchingLabels{names.ManagedByLabel: names.ManagedBy}, client.HasLabels{ComponentLabel},
	}).LabelSelector
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

func list(ctx context.Context, reader client.Reader, cluster client.ObjectKey, component string) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := reader.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels(labels(cluster, component))); err != nil {
		return nil, fmt.Errorf("list the revisions of %s: %w", component, err)
	}
	slices.SortFunc(list.Items, byNumber)
	return list.Items, nil
}
