package revision

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wanted is what the rendering of a component is to be for.
type wanted struct {
	// inputs is the hash of the inputs.
	inputs string
	// rolloutAfter is the rollout's time; zero for none.
	rolloutAfter time.Time
	// again is the name of the revision whose rendering is to be taken again; empty for none.
	again string
}

// choice is what becomes of the rendering of a component.
type choice struct {
	// keep is true when the newest revision is as it is wanted. Else a new one is made.
	keep bool
	// again is the revision that the new one has its objects from; nil where they are rendered.
	again *appsv1.ControllerRevision
	// same is true when the newest revision has the objects of again.
	same bool
	// due is true when the newest revision is older than the rollout's time.
	due bool
	// newest is what the newest revision holds; nothing where there is none.
	newest storedContent
	// problem is why the rendering that is named is not taken again; empty when it is, or none is named.
	problem string
}

// choose decides, from all revisions of a component from the oldest to the newest. The objects of a revision that
// spec.rollout.renderings names are taken again while the wanted inputs are those that it was made from, whatever the rollout's
// time is. A later time still gets a new revision with the same objects: else the component would be rendered anew as soon as no
// revision is named any more.
func choose(revisions []appsv1.ControllerRevision, want wanted, judge func(*appsv1.ControllerRevision) error) (choice, error) {
	if len(revisions) == 0 {
		_, problem := find(revisions, want, judge)
		return choice{problem: problem}, nil
	}
	newest := &revisions[len(revisions)-1]
	stored, err := contentOf(newest)
	if err != nil {
		return choice{}, err
	}
	made := choice{due: !isFor(newest, stored, want.rolloutAfter), newest: *stored}
	made.again, made.problem = find(revisions, want, judge)
	if made.again != nil {
		former, err := contentOf(made.again)
		if err != nil {
			return choice{}, err
		}
		made.same = reflect.DeepEqual(former.Items, stored.Items)
	}
	made.keep = stored.Inputs == want.inputs && !made.due && (made.again == nil || made.same)
	return made, nil
}

// find is the revision that is named, or why its rendering is not taken again.
func find(revisions []appsv1.ControllerRevision, want wanted, judge func(*appsv1.ControllerRevision) error) (*appsv1.ControllerRevision, string) {
	if want.again == "" {
		return nil, ""
	}
	i := slices.IndexFunc(revisions, func(r appsv1.ControllerRevision) bool { return r.Name == want.again })
	if i < 0 {
		return nil, "which is not there"
	}
	stored, err := contentOf(&revisions[i])
	if err == nil && stored.Inputs != want.inputs {
		return nil, "which was made from other inputs: spec, the version, the Cluster's network or a key has changed since"
	}
	if err == nil {
		err = judge(&revisions[i])
	}
	if err != nil {
		return nil, fmt.Sprintf("for %s", err)
	}
	return &revisions[i], ""
}

func (s *Store) wanted(cluster client.ObjectKey, component, inputs string, rolloutAfter time.Time) wanted {
	want := wanted{inputs: inputs, rolloutAfter: rolloutAfter}
	if number := s.Again[component]; number > 0 {
		want.again = name(cluster, component, number)
	}
	return want
}

// judge says what is wrong with a revision of a component.
func (s *Store) judge(component string) func(*appsv1.ControllerRevision) error {
	return func(r *appsv1.ControllerRevision) error {
		_, err := s.decode(r, component)
		return err
	}
}

// NotTaken says why a component does not take the rendering again that Again names; empty when it does, or none is named.
func (s *Store) NotTaken(ctx context.Context, cluster client.ObjectKey, component, inputs string) (string, error) {
	want := s.wanted(cluster, component, inputs, time.Time{})
	if want.again == "" {
		return "", nil
	}
	revisions, err := s.known(ctx, cluster, component)
	if err != nil {
		return "", err
	}
	_, problem := find(revisions, want, s.judge(component))
	return problem, nil
}
