//go:build envtest

package revision

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// items are the objects of a revision, byte for byte.
func items(t *testing.T, r *appsv1.ControllerRevision) string {
	t.Helper()
	held := &struct {
		Items json.RawMessage `json:"items"`
	}{}
	if err := json.Unmarshal(r.Data.Raw, held); err != nil {
		t.Fatal(err)
	}
	return string(held.Items)
}

// Each step is one of a provider that renders otherwise than the one before, and is looked at twice.
func TestAFormerRenderingIsTakenAgainOnce(t *testing.T) {
	blue := tenant(t)
	first := time.Now().Add(-time.Hour).Truncate(time.Second)
	var adopted []Adoption
	for i, step := range []struct {
		name         string
		inputs       string
		rolloutAfter time.Time
		again        int64
		by           string
		revisions    int
		adopted      Adoption
	}{
		{"a provider renders", "a", time.Time{}, 0, "p0", 1, Adoption{}},
		{"a newer one renders for a rollout", "a", first.Add(2 * time.Hour), 0, "p1", 2, Adoption{Number: 2, Due: true}},
		{"the first is named", "a", first.Add(2 * time.Hour), 1, "p0", 3, Adoption{Number: 3, Again: 1}},
		{"none is named", "a", first.Add(2 * time.Hour), 0, "p0", 3, Adoption{}},
		{"the second is named", "a", first.Add(2 * time.Hour), 2, "p1", 4, Adoption{Number: 4, Again: 2}},
		{"a rollout is asked for", "a", first.Add(3 * time.Hour), 2, "p1", 5, Adoption{}},
		{"none is named after it", "a", first.Add(3 * time.Hour), 0, "p1", 5, Adoption{}},
		{"a rollout is asked for again", "a", first.Add(4 * time.Hour), 0, "p7", 6, Adoption{Number: 6, Due: true}},
		{"one that is not there is named", "a", first.Add(4 * time.Hour), 9, "p7", 6, Adoption{}},
		{"inputs change", "b", first.Add(4 * time.Hour), 1, "p9", 7, Adoption{Number: 7}},
		{"inputs are as they were", "a", first.Add(4 * time.Hour), 1, "p0", 8, Adoption{Number: 8, Again: 1}},
	} {
		store := &Store{
			Live: live, Client: live, Version: "v1.36.3", Provider: fmt.Sprint("p", i), Again: map[string]int64{"kube-apiserver": step.again},
			Adopted: func(a Adoption) { adopted = append(adopted, a) },
		}
		adopted = nil
		for range 2 {
			objects, err := store.Rendering(t.Context(), blue, "kube-apiserver", step.inputs, step.rolloutAfter, giving(store.Provider))
			if by := made(t, objects, err); by != step.by {
				t.Errorf("%s: it is of %s, want %s", step.name, by, step.by)
			}
		}
		if current, err := store.Current(t.Context(), blue, "kube-apiserver", step.rolloutAfter, step.inputs); !current || err != nil {
			t.Errorf("%s: what it gives is current is %t, %v", step.name, current, err)
		}
		all := revisions(t, blue)
		newest, err := Read(&all[len(all)-1])
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != step.revisions || newest.Provider != step.by || newest.Inputs != step.inputs {
			t.Errorf("%s: there are %d revisions, the newest of %s and %s; want %d", step.name, len(all), newest.Inputs, newest.Provider, step.revisions)
		}
		if newest.Again > 0 && items(t, &all[len(all)-1]) != items(t, &all[newest.Again-1]) {
			t.Errorf("%s: its objects are not those of revision %d, byte for byte:\n%s\n%s",
				step.name, newest.Again, items(t, &all[len(all)-1]), items(t, &all[newest.Again-1]))
		}
		var want []Adoption
		if step.adopted != (Adoption{}) {
			step.adopted.Component, step.adopted.From, step.adopted.To = "kube-apiserver", "v1.36.3", "v1.36.3"
			step.adopted.Name = fmt.Sprintf("blue-kube-apiserver-%d", step.adopted.Number)
			want = []Adoption{step.adopted}
		}
		if diff := cmp.Diff(want, adopted); diff != "" {
			t.Errorf("%s: want (-) and got (+):\n%s", step.name, diff)
		}
	}
}

// Of two managers one may have a clock that is ahead.
func TestARenderingThatIsTakenAgainCountsForTheTimeOfTheOneBefore(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	rollout := time.Now().Add(time.Hour).Truncate(time.Second)
	for i, step := range []struct {
		rolloutAfter time.Time
		again        int64
		by           string
	}{{time.Time{}, 0, "0"}, {rollout, 0, "1"}, {time.Time{}, 1, "0"}, {rollout, 0, "0"}} {
		store.Again = map[string]int64{"kube-apiserver": step.again}
		objects, err := store.Rendering(t.Context(), blue, "kube-apiserver", "a", step.rolloutAfter, giving(fmt.Sprint(i)))
		if by := made(t, objects, err); by != step.by {
			t.Errorf("in step %d it is of step %s, want %s", i, by, step.by)
		}
	}
}

func TestWhatIsToBeTakenAgainIsNotCurrentBefore(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live}
	rollout := time.Now().Add(time.Hour).Truncate(time.Second)
	for i, rolloutAfter := range []time.Time{{}, rollout} {
		if _, err := store.Rendering(t.Context(), blue, "kube-apiserver", "a", rolloutAfter, giving(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for number, want := range map[int64]bool{0: true, 1: false, 2: true, 3: true} {
		store.Again = map[string]int64{"kube-apiserver": number}
		if current, err := store.Current(t.Context(), blue, "kube-apiserver", rollout, "a"); current != want || err != nil {
			t.Errorf("with revision %d named it is current: %t, %v", number, current, err)
		}
	}
}

func TestWhatIsNamedIsKeptAndWhatItSupersedesIsDeleted(t *testing.T) {
	blue, store := tenant(t), &Store{Live: live, Client: live, Again: map[string]int64{"kube-apiserver": 1}}
	for i := range Limit + 3 {
		objects := []string{"a", "b"}
		if i == 0 {
			objects = []string{"a", "former"}
		}
		if _, err := store.Rendering(t.Context(), blue, "kube-apiserver", fmt.Sprint("inputs-", i), time.Time{}, named(objects...)); err != nil {
			t.Fatal(err)
		}
	}
	var numbers []int64
	for _, r := range revisions(t, blue) {
		numbers = append(numbers, r.Revision)
	}
	if want := []int64{1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}; !slices.Equal(numbers, want) {
		t.Errorf("kept are %v, want %v", numbers, want)
	}

	objects, err := store.Rendering(t.Context(), blue, "kube-apiserver", "inputs-0", time.Time{}, func() ([]client.Object, error) {
		t.Error("it is rendered")
		return nil, nil
	})
	if err != nil || len(objects) != 2 || objects[1].GetName() != "former" {
		t.Errorf("it gives %v, %v", objects, err)
	}
	superseded, err := store.Superseded(t.Context(), blue, "kube-apiserver")
	if err != nil || len(superseded) != 1 || superseded[0].Name != "b" {
		t.Errorf("superseded are %v, %v", superseded, err)
	}
}
