package revision

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// FuzzRenderings: a stored rendering that is read is the same when it is stored and read again; else a component would be
// applied without end. It has as many objects as items, each of a kind that the program knows.
func FuzzRenderings(f *testing.F) {
	for _, seed := range []string{
		`{"inputs":"a","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","creationTimestamp":null},"data":{"a":"b"}}],"rolloutAfter":"2026-07-01T12:00:00Z","version":"v1.36.3"}`,
		`{"items":[{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"a"},"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}},"ports":[{"containerPort":1}]}]}}}}]}`,
		`{"items":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"port":1,"targetPort":"a"}]}}],"former":[{"apiVersion":"v1","kind":"Service","name":"b"}]}`,
		`{"items":[{"apiVersion":"v1","kind":"ConfigMapList","items":[]}]}`, `{"items":[{"kind":"Status","apiVersion":"v1"}]}`, `{"items":[{"apiVersion":"v1","kind":"Pod","metadata":1}]}`,
		`{"items":[{"apiVersion":"a/b/c","kind":"Pod"}]}`, `{"items":[{}]}`, `{"items":[null]}`, `{"items":{}}`, `{}`, `[]`, ``, `{"items":[{"apiVersion":"v1","kind":"ListOptions"}]}`,
	} {
		f.Add([]byte(seed))
	}
	store := &Store{Client: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()}
	f.Fuzz(func(t *testing.T, data []byte) {
		revision := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}}
		stored, err := contentOf(revision)
		if err != nil {
			return
		}
		objects, err := store.objects(revision, stored, "etcd-data")
		if err != nil {
			return
		}
		if len(objects) != len(stored.Items) {
			t.Errorf("%d items are %d objects", len(stored.Items), len(objects))
		}
		var rolloutAfter = stored.RolloutAfter
		made := store.newContent(stored.Inputs, objects, nil, renderedFor(&appsv1.ControllerRevision{}, stored))
		if made.RolloutAfter.IsZero() != rolloutAfter.IsZero() {
			t.Errorf("the rollout's time %v is stored as %v", rolloutAfter, made.RolloutAfter)
		}
		written, err := json.Marshal(made)
		if err != nil {
			return // The API server's JSON has no such value.
		}
		again, err := store.decode(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: written}}, "etcd-data")
		if diff := cmp.Diff(asJSON(t, objects), asJSON(t, again)); err != nil || diff != "" {
			t.Errorf("stored again it is another: %v\n%s", err, diff)
		}
	})
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
