package history

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzRevisions: whatever somebody else wrote in the place of the newest revision, the present spec is recorded after it, and is
// then recorded.
func FuzzRevisions(f *testing.F) {
	for _, seed := range []string{
		`{"hash":"a","version":"v1.36.3","provider":"v0.1.0","at":"2026-03-04T12:00:00Z","by":["a"],"changed":["spec.version"],"wayBack":[{"op":"replace","path":"/spec/version","value":"v1.36.2"}],"spec":{"version":"v1.36.2","patches":[{"patch":"a"}]}}`,
		`{"spec":null}`, `{"spec":1}`, `{"spec":{"version":1}}`, `{"spec":{"other":[{}],"patches":{}}}`, `{"spec":[]}`, `{}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := Input{Cluster: blue, ControlPlane: tenant(), Now: noon, Known: []appsv1.ControllerRevision{{
			ObjectMeta: metav1.ObjectMeta{Name: "blue-spec-1"}, Revision: 1, Data: runtime.RawExtension{Raw: data},
		}}}
		decision, err := Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		if decision.Make == nil {
			return // It has the hash of the present spec.
		}
		in.Known = append(in.Known, *decision.Make)
		again, err := Decide(in)
		if err != nil || again.Make != nil || decision.Spec.Name != "blue-spec-2" || again.Spec != decision.Spec {
			t.Errorf("it is recorded as %s, and then %+v, %v", decision.Spec.Name, again, err)
		}
	})
}
