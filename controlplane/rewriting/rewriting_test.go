package rewriting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

const (
	ofFormer = "k8s:enc:secretbox:v1:key1:…"
	ofNext   = "k8s:enc:secretbox:v1:key-0123456789:…"
)

// tenant has an etcd and an API of Secrets. A Secret that is written is of the next key, unless it is stuck.
type tenant struct {
	t      *testing.T
	lock   sync.Mutex
	values map[string]string
	// patched are the Secrets that were written, in their order; answers are what the API says of some in place of that.
	patched []string
	answers map[string]int
	// failAt has the etcd fail before this key, once; cancel ends the run there.
	failAt string
	cancel context.CancelFunc
	reads  int
}

func (e *tenant) read(_ context.Context, from string, do func(string, []byte)) (string, error) {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.reads++
	for _, key := range slices.Sorted(maps.Keys(e.values)) {
		switch {
		case key < from:
			continue
		case key == e.failAt:
			e.failAt = ""
			if e.cancel != nil {
				e.cancel()
			}
			return key, errors.New("etcd went away")
		}
		do(key, []byte(e.values[key]))
	}
	return "", nil
}

func (e *tenant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.lock.Lock()
	defer e.lock.Unlock()
	w.Header().Set("Content-Type", "application/json")
	tell := func(answer string) { _, _ = w.Write([]byte(answer)) }
	name, isSecret := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/default/secrets/")
	switch {
	case r.URL.Path == "/api":
		tell(`{"kind":"APIVersions","versions":["v1"]}`)
	case r.URL.Path == "/apis":
		tell(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case r.URL.Path == "/api/v1":
		tell(`{"kind":"APIResourceList","groupVersion":"v1","resources":[
			{"name":"secrets","kind":"Secret","namespaced":true,"verbs":["list","patch"]},{"name":"secrets/other","kind":"Secret","namespaced":true,"verbs":["list","patch"]},
			{"name":"bindings","kind":"Binding","namespaced":true,"verbs":["create"]},{"name":"nodes","kind":"Node","verbs":["list","patch"]}]}`)
	case r.URL.Path == "/api/v1/secrets":
		if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			e.t.Errorf("it asks for what Secrets hold: %s", r.Header.Get("Accept"))
		}
		var items []string
		for _, key := range slices.Sorted(maps.Keys(e.values)) {
			if name, found := strings.CutPrefix(key, "/registry/secrets/default/"); found {
				items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"default","name":%q,"uid":"uid-%s","resourceVersion":"7"}}`, name, name))
			}
		}
		tell(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[` + strings.Join(items, ",") + `]}`)
	case isSecret && r.Method == http.MethodPatch:
		body := map[string]map[string]string{}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body) != 1 || len(body["metadata"]) != 2 || body["metadata"]["uid"] != "uid-"+name || body["metadata"]["resourceVersion"] != "7" {
			e.t.Errorf("the patch of %s is %v, %v", name, body, err)
		}
		e.patched = append(e.patched, name)
		if code := e.answers[name]; code != 0 {
			if code != http.StatusForbidden {
				e.values["/registry/secrets/default/"+name] = ofNext // Somebody else wrote it, or it is gone.
			}
			w.WriteHeader(code)
			tell(fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"a webhook denied it"}`, code,
				map[int]string{http.StatusForbidden: "Forbidden", http.StatusConflict: "Conflict", http.StatusNotFound: "NotFound"}[code]))
			return
		}
		e.values["/registry/secrets/default/"+name] = ofNext
		tell(fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"namespace":"default","name":%q}}`, name))
	default:
		e.t.Errorf("it asks for %s %s", r.Method, r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
	}
}

func rewriterOf(t *testing.T, e *tenant) *Rewriter {
	t.Helper()
	e.t = t
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return &Rewriter{
		File: "0123456789", Etcds: []Etcd{e.read}, Guard: (&tenantapi.Guards{}).Of(client.ObjectKey{Name: "blue"}),
		Connect: func() (*rest.Config, error) { return &rest.Config{Host: server.URL, QPS: -1}, nil },
	}
}

func secrets(of ...string) map[string]string {
	values := map[string]string{"/registry/nodes/a": "k8s\x00", "/registry/secrets/default/of-next": ofNext, "/registry/secrets/default/plain": "k8s\x00"}
	for _, name := range of {
		values["/registry/secrets/default/"+name] = ofFormer
	}
	return values
}

func TestOnlyWhatTheFormerKeyEncryptedIsWritten(t *testing.T) {
	e := &tenant{values: secrets("a", "b", "c"), answers: map[string]int{"b": http.StatusConflict, "c": http.StatusNotFound}}
	progress, err := rewriterOf(t, e).Run(t.Context())
	if err != nil || !progress.Done || progress.Rewritten != 3 || len(progress.Left) != 0 || !slices.Equal(e.patched, []string{"a", "b", "c"}) {
		t.Errorf("it came to %+v, %v, and wrote %v", progress, err, e.patched)
	}
}

func TestNothingIsAskedForOnceAllIsDone(t *testing.T) {
	e := &tenant{values: secrets()}
	r := rewriterOf(t, e)
	for range 3 {
		if progress, err := r.Run(t.Context()); err != nil || !progress.Done {
			t.Fatalf("it came to %+v, %v", progress, err)
		}
	}
	if e.reads != 1 || len(e.patched) > 0 {
		t.Errorf("etcd was looked at %d times, and %v were written", e.reads, e.patched)
	}
}

// One object that an admission webhook of the tenant refuses does not keep the others from being written, and is told.
func TestAnObjectThatIsRefusedIsTold(t *testing.T) {
	e := &tenant{values: secrets("a", "b"), answers: map[string]int{"a": http.StatusForbidden}}
	r := rewriterOf(t, e)
	for range 2 {
		progress, err := r.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "write Secret default/a again: a webhook denied it") || progress.Done {
			t.Fatalf("it came to %+v, %v", progress, err)
		}
	}
	if progress, _ := r.Run(t.Context()); progress.Left["secrets"] != 1 || progress.Rewritten != 1 || e.values["/registry/secrets/default/b"] != ofNext {
		t.Errorf("it came to %+v", progress)
	}
	delete(e.answers, "a")
	if progress, err := r.Run(t.Context()); err != nil || !progress.Done || progress.Rewritten != 2 {
		t.Errorf("it came to %+v, %v", progress, err)
	}
}

// What is of the former key and of no API is left, and keeps it from being done.
func TestWhatTheAPIDoesNotHaveIsLeft(t *testing.T) {
	e := &tenant{values: secrets("a")}
	e.values["/registry/example.org/widgets/default/w"] = ofFormer
	progress, err := rewriterOf(t, e).Run(t.Context())
	if err != nil || progress.Done || progress.Left["widgets.example.org"] != 1 || progress.Left["secrets"] != 0 || progress.Rewritten != 1 {
		t.Errorf("it came to %+v, %v", progress, err)
	}
}

// A look at etcd goes on where it was, whatever ended it, and is no whole one before its end.
func TestALookGoesOnWhereItWas(t *testing.T) {
	e := &tenant{values: secrets(), failAt: "/registry/secrets/default/plain"}
	r := rewriterOf(t, e)
	if progress, err := r.Run(t.Context()); err == nil || progress.Done || progress.Looked != 2 || progress.Left != nil {
		t.Fatalf("it came to %+v, %v", progress, err)
	}
	e.failAt = "/registry/secrets/default/plain"
	ctx, cancel := context.WithCancel(t.Context())
	e.cancel = cancel
	if progress, err := r.Run(ctx); err != nil || progress.Done || progress.Looked != 2 {
		t.Fatalf("after the end of its time it came to %+v, %v", progress, err)
	}
	if progress, err := r.Run(t.Context()); err != nil || !progress.Done || e.reads != 3 {
		t.Errorf("it came to %+v, %v, after %d reads", progress, err, e.reads)
	}
}

// Events may be in an etcd of their own: it counts, too.
func TestEveryEtcdIsLookedAt(t *testing.T) {
	events := &tenant{values: map[string]string{"/registry/events/default/e": ofFormer}}
	r := rewriterOf(t, &tenant{values: secrets()})
	r.Etcds = append(r.Etcds, events.read)
	if progress, err := r.Run(t.Context()); err != nil || progress.Done || progress.Left["events"] != 1 {
		t.Errorf("it came to %+v, %v", progress, err)
	}
	r.Etcds = nil
	if progress, err := r.Run(t.Context()); err == nil || progress.Done {
		t.Errorf("without an etcd it came to %+v, %v", progress, err)
	}
}

func TestResourcesAreNamedForPeople(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/secrets/default/a":                  "secrets",
		"/registry/clusterroles/system:node":           "clusterroles",
		"/registry/services/specs/default/a":           "services",
		"/registry/example.org/widgets/default/a":      "widgets.example.org",
		"/registry/secrets\n/a/b":                      "others",
		"/registry/" + strings.Repeat("a", 200) + "/b": "others",
		"/registry/": "others",
		"":           "others",
	} {
		if got := resourceOf(key); got != want {
			t.Errorf("%q is of %q, want %q", key, got, want)
		}
	}
}

// A pass remembers a bounded number of keys, and counts all.
func TestAPassIsBounded(t *testing.T) {
	p := newPass()
	for i := range 2 * mostKeys {
		p.add(fmt.Sprintf("/registry/secrets/default/%06d", i))
	}
	if p.total() != 2*mostKeys || len(p.objects) > mostKeys+1 || !p.has("default", "000000") {
		t.Errorf("it counts %d, and remembers %d", p.total(), len(p.objects))
	}
}
