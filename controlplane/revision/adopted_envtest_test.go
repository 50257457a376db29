//go:build envtest

package revision

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatTakesThePlaceOfAFormerRevisionIsTold(t *testing.T) {
	blue := tenant(t)
	var adopted []Adoption
	store := &Store{Live: live, Client: live, Adopted: func(a Adoption) { adopted = append(adopted, a) }}
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, step := range []struct {
		name, version, inputs string
		rolloutAfter          time.Time
		want                  []Adoption
	}{
		{"the first takes no place", "v1.35.1", "inputs-1", past, nil},
		{"the same inputs take none", "v1.35.1", "inputs-1", past, nil},
		{"other inputs", "v1.35.1", "inputs-2", past, []Adoption{{Component: "etcd-data", Name: "blue-etcd-data-2", Number: 2, From: "v1.35.1", To: "v1.35.1"}}},
		{"another version", "v1.36.3", "inputs-3", past, []Adoption{{Component: "etcd-data", Name: "blue-etcd-data-3", Number: 3, From: "v1.35.1", To: "v1.36.3"}}},
		{"a later rollout", "v1.36.3", "inputs-4", past.Add(time.Minute), []Adoption{{Component: "etcd-data", Name: "blue-etcd-data-4", Number: 4, From: "v1.36.3", To: "v1.36.3", Due: true}}},
	} {
		t.Run(step.name, func(t *testing.T) {
			adopted, store.Version = nil, step.version
			if _, err := store.Rendering(t.Context(), blue, "etcd-data", step.inputs, step.rolloutAfter, giving("v1")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(step.want, adopted); diff != "" {
				t.Errorf("want (-) and got (+):\n%s", diff)
			}
		})
	}

	third := revisions(t, blue)[2].CreationTimestamp.Time
	for version, want := range map[string]time.Time{"v1.36.3": third, "v1.35.1": {}} {
		if since, err := store.RenderedSince(t.Context(), blue, "etcd-data", version); err != nil || !since.Equal(want) {
			t.Errorf("%s is rendered since %s, want %s: %v", version, since, want, err)
		}
	}
}
