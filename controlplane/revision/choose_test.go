package revision

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// stored is a revision that was made at noon.
func stored(number int64, inputs, program string, rolloutAfter time.Time) appsv1.ControllerRevision {
	held := content{Inputs: inputs, Version: "v1.36.3", Items: []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"by": program}}}}
	if !rolloutAfter.IsZero() {
		held.RolloutAfter = &metav1.Time{Time: rolloutAfter}
	}
	data, err := json.Marshal(held)
	if err != nil {
		panic(err) // It is text.
	}
	return appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("r-%d", number), CreationTimestamp: metav1.NewTime(noon)},
		Revision:   number, Data: runtime.RawExtension{Raw: data},
	}
}

func TestTheNewestRevisionHasWhatIsNamedWhileThatHolds(t *testing.T) {
	type revisions = []appsv1.ControllerRevision
	var none time.Time
	later := noon.Add(time.Hour)
	unreadable := appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "r-1"}, Revision: 1, Data: runtime.RawExtension{Raw: []byte(`[]`)}}
	// A newer provider rendered otherwise, when a rollout's time had passed.
	rolledOut := revisions{stored(1, "a", "old", none), stored(2, "a", "new", later)}
	takenAgain := slices.Concat(rolledOut, revisions{stored(3, "a", "old", later)})
	type made struct {
		Keep       bool
		Again      string
		Same, Due  bool
		NotTakenAs string
	}
	const gone, others = "which is not there", "which was made from other inputs: spec, the version, the Cluster's network or a key has changed since"
	for name, test := range map[string]struct {
		revisions revisions
		want      wanted
		refused   string
		made      made
	}{
		"nothing is stored":                           {nil, wanted{inputs: "a"}, "", made{}},
		"nothing is stored, and one is named":         {nil, wanted{inputs: "a", again: "r-1"}, "", made{NotTakenAs: gone}},
		"the newest is of these inputs":               {rolledOut, wanted{inputs: "a", rolloutAfter: later}, "", made{Keep: true}},
		"the newest is of others":                     {rolledOut, wanted{inputs: "b", rolloutAfter: later}, "", made{}},
		"the rollout's time is later":                 {rolledOut, wanted{inputs: "a", rolloutAfter: later.Add(1)}, "", made{Due: true}},
		"the one before is named":                     {rolledOut, wanted{inputs: "a", rolloutAfter: later, again: "r-1"}, "", made{Again: "r-1"}},
		"it is named, and its objects are the newest": {takenAgain, wanted{inputs: "a", rolloutAfter: later, again: "r-1"}, "", made{Keep: true, Again: "r-1", Same: true}},
		"the newest is named":                         {rolledOut, wanted{inputs: "a", rolloutAfter: later, again: "r-2"}, "", made{Keep: true, Again: "r-2", Same: true}},
		"another one is named later":                  {takenAgain, wanted{inputs: "a", rolloutAfter: later, again: "r-2"}, "", made{Again: "r-2"}},
		"none is named any more":                      {takenAgain, wanted{inputs: "a", rolloutAfter: later}, "", made{Keep: true}},
		"none is named, and no time either":           {takenAgain, wanted{inputs: "a"}, "", made{Keep: true}},
		"a later time does not win over one that is named": {takenAgain, wanted{inputs: "a", rolloutAfter: later.Add(1), again: "r-1"}, "",
			made{Again: "r-1", Same: true, Due: true}},
		"a later time wins when none is named": {takenAgain, wanted{inputs: "a", rolloutAfter: later.Add(1)}, "", made{Due: true}},
		"it is not there":                      {rolledOut, wanted{inputs: "a", rolloutAfter: later, again: "r-7"}, "", made{Keep: true, NotTakenAs: gone}},
		"it is not there, and inputs change":   {rolledOut, wanted{inputs: "b", rolloutAfter: later, again: "r-7"}, "", made{NotTakenAs: gone}},
		"it is of other inputs than the wanted ones": {revisions{stored(1, "b", "old", none), stored(2, "a", "new", none)},
			wanted{inputs: "a", again: "r-1"}, "", made{Keep: true, NotTakenAs: others}},
		"inputs change": {takenAgain, wanted{inputs: "b", rolloutAfter: later, again: "r-1"}, "", made{NotTakenAs: others}},
		"inputs are again those that it was made from": {revisions{stored(1, "a", "old", none), stored(2, "b", "new", none)},
			wanted{inputs: "a", again: "r-1"}, "", made{Again: "r-1"}},
		"somebody else wrote it": {rolledOut, wanted{inputs: "a", rolloutAfter: later, again: "r-1"}, "r-1 is forged",
			made{Keep: true, NotTakenAs: "for r-1 is forged"}},
		"nobody can read it": {revisions{unreadable, stored(2, "a", "new", none)}, wanted{inputs: "a", again: "r-1"}, "",
			made{Keep: true, NotTakenAs: "for " + refused(&unreadable, "json: cannot unmarshal array into Go value of type revision.storedContent").Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(test.revisions, test.want, func(*appsv1.ControllerRevision) error {
				if test.refused != "" {
					return errors.New(test.refused)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			got := made{Keep: chosen.keep, Same: chosen.same, Due: chosen.due, NotTakenAs: chosen.problem}
			if chosen.again != nil {
				got.Again = chosen.again.Name
			}
			if diff := cmp.Diff(test.made, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
	if _, err := choose(revisions{unreadable}, wanted{inputs: "a"}, nil); err == nil {
		t.Error("the newest cannot be read, and that is no error")
	}
}
