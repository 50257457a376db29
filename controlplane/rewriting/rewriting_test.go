package rewriting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

const (
	ofFormer = "k8s:enc:secretbox:v1:key1:…"
	ofNext   = "k8s:enc:secretbox:v1:key-0123456789:…"
)

// tenant has an etcd and an API. An object that is written is of the next key, unless the API answers otherwise.
type tenant struct {
	t      *testing.T
	lock   sync.Mutex
	values map[string]string
	// patched are the paths of what was written, in their order; answers are what the API says of some, by name, in place of that.
	patched []string
	answers map[string]int
	// says is the body of an answer to a write.
	says string
	// failAt has the etcd fail before this key, once; cancel ends the run there, or before a write of a Secret with the name cancelAt.
	failAt, cancelAt string
	cancel           context.CancelFunc
	// reads is how often the etcd was read, looked how many values it told.
	reads, looked int
}

func (e *tenant) read(_ context.Context, from string, do func(string, []byte) bool) (string, error) {
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
		e.looked++
		if !do(key, []byte(e.values[key])) {
			return key + "\x00", nil
		}
	}
	return "", nil
}

// documents are what the API serves. The version v1.hostile.example.org is of a server of the tenant: nobody asks that.
var documents = map[string]string{
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[
		{"name":"hostile.example.org","versions":[{"groupVersion":"hostile.example.org/v1"}],"preferredVersion":{"groupVersion":"hostile.example.org/v1"}},
		{"name":"hostile.k8s.io","versions":[{"groupVersion":"hostile.k8s.io/v1"}],"preferredVersion":{"groupVersion":"hostile.k8s.io/v1"}},
		{"name":"example.org","versions":[{"groupVersion":"example.org/v2"},{"groupVersion":"example.org/v1"}],"preferredVersion":{"groupVersion":"example.org/v1"}}]}`,
	"/apis/apiregistration.k8s.io/v1/apiservices/v1.":                    `{"spec":{}}`,
	"/apis/apiregistration.k8s.io/v1/apiservices/v1.example.org":         `{"spec":{"service":null}}`,
	"/apis/apiregistration.k8s.io/v1/apiservices/v2.example.org":         `{"spec":{}}`,
	"/apis/apiregistration.k8s.io/v1/apiservices/v1.hostile.example.org": `{"spec":{"service":{"name":"hostile","namespace":"default"}}}`,
	"/apis/apiregistration.k8s.io/v1/apiservices/v1.hostile.k8s.io":      `{"spec":{"service":{"name":"hostile","namespace":"default"}}}`,
	"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
		{"name":"secrets","kind":"Secret","namespaced":true,"verbs":["list","patch"]},{"name":"secrets/other","kind":"Secret","namespaced":true,"verbs":["list","patch"]},
		{"name":"bindings","kind":"Binding","namespaced":true,"verbs":["create"]},{"name":"nodes","kind":"Node","verbs":["list","patch"]}]}`,
	"/apis/example.org/v1": `{"resources":[{"name":"allowlists","kind":"AllowList","verbs":["patch"]}]}`,
	"/apis/example.org/v2": `{"resources":[{"name":"allowlists","kind":"AllowList","verbs":["patch"]},{"name":"gears","kind":"Gear","namespaced":true,"verbs":["patch"]}]}`,
}

// places are the keys of what the API has, by paths without the name.
var places = map[string]string{
	"/api/v1/namespaces/default/secrets/":            "/registry/secrets/default/",
	"/api/v1/nodes/":                                 "/registry/minions/",
	"/apis/example.org/v1/allowlists/":               "/registry/example.org/allowlists/",
	"/apis/example.org/v2/namespaces/default/gears/": "/registry/example.org/gears/default/",
}

func (e *tenant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.lock.Lock()
	defer e.lock.Unlock()
	w.Header().Set("Content-Type", "application/json")
	tell := func(answer string) { _, _ = w.Write([]byte(answer)) }
	at := strings.LastIndex(r.URL.Path, "/") + 1
	name, place := r.URL.Path[at:], places[r.URL.Path[:at]]
	switch {
	case r.Method == http.MethodGet && documents[r.URL.Path] != "":
		tell(documents[r.URL.Path])
	case r.Method == http.MethodPatch && place != "":
		body, err := io.ReadAll(r.Body)
		if name == e.cancelAt {
			e.cancel()
			<-r.Context().Done()
			return
		}
		if err != nil || string(body) != "{}" || !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata;") {
			e.t.Errorf("the patch of %s is %s, %v, and asks for %s", name, body, err, r.Header.Get("Accept"))
		}
		e.patched = append(e.patched, r.URL.Path)
		if code := e.answers[name]; code != 0 {
			if code == http.StatusConflict || code == http.StatusNotFound {
				e.values[place+name] = ofNext // Somebody else wrote it, or it is gone.
			}
			w.WriteHeader(code)
			tell(fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"a webhook denied it"}`, code,
				map[int]string{http.StatusForbidden: "Forbidden", http.StatusConflict: "Conflict", http.StatusNotFound: "NotFound", http.StatusInternalServerError: "InternalError"}[code]))
			return
		}
		e.values[place+name] = ofNext
		tell(e.says)
	default:
		e.t.Errorf("it asks for %s %s", r.Method, r.URL.Path)
		w.WriteHeader(http.StatusTeapot)
	}
}

func rewriterOf(t *testing.T, e *tenant) *Rewriter {
	t.Helper()
	r, _ := rewriterWithGuard(t, e)
	return r
}

func rewriterWithGuard(t *testing.T, e *tenant) (*Rewriter, *tenantapi.Guard) {
	t.Helper()
	e.t = t
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	guard := (&tenantapi.Guards{}).Of(client.ObjectKey{Name: "blue"})
	return &Rewriter{
		File: "0123456789", Etcds: []Etcd{e.read}, Clock: clocktesting.NewFakePassiveClock(time.Now()),
		Connect: func() (*rest.Config, error) {
			config := &rest.Config{Host: server.URL, QPS: -1}
			config.Wrap(guard.Wrap)
			return config, nil
		},
	}, guard
}

// later lets time pass.
func (r *Rewriter) later(by time.Duration) {
	clock := r.Clock.(*clocktesting.FakePassiveClock)
	clock.SetTime(clock.Now().Add(by))
}

func many(number int) []string {
	var names []string
	for i := range number {
		names = append(names, fmt.Sprintf("a-%06d", i))
	}
	return names
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
	const path = "/api/v1/namespaces/default/secrets/"
	if err != nil || !progress.Done || progress.Rewritten != 1 || len(progress.Left) != 0 || !slices.Equal(e.patched, []string{path + "a", path + "b", path + "c"}) {
		t.Errorf("it came to %+v, %v, and wrote %v", progress, err, e.patched)
	}
}

// Kinds are known by where etcd has their objects, whatever their names are, and by a version that has them.
func TestEveryKindIsWritten(t *testing.T) {
	e := &tenant{values: map[string]string{
		"/registry/minions/n": ofFormer, "/registry/example.org/allowlists/l": ofFormer, "/registry/example.org/gears/default/g": ofFormer,
	}}
	progress, err := rewriterOf(t, e).Run(t.Context())
	if err != nil || !progress.Done || progress.Rewritten != 3 {
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

// One pass writes all that there is, however much and in however many runs, and a second one proves it.
func TestALargeTenantIsWrittenInOnePass(t *testing.T) {
	const number = 2*batchSize + 10
	e := &tenant{values: secrets(many(number)...)}
	r := rewriterOf(t, e)
	for i, stop := range []int{5, 900, batchSize + 300} {
		ctx, cancel := context.WithCancel(t.Context())
		e.cancel, e.cancelAt = cancel, fmt.Sprintf("a-%06d", stop)
		progress, err := r.Run(ctx)
		if err != nil || progress.Done || progress.Rewritten != stop || len(r.pass.batch) > batchSize {
			t.Fatalf("run %d came to %+v, %v, and keeps %d keys", i, progress, err, len(r.pass.batch))
		}
	}
	e.cancelAt = ""
	progress, err := r.Run(t.Context())
	if err != nil || !progress.Done || progress.Rewritten != number || len(e.patched) != number {
		t.Errorf("it came to %+v, %v, and wrote %d", progress, err, len(e.patched))
	}
	if e.looked != 2*len(e.values) {
		t.Errorf("of %d values it looked at %d", len(e.values), e.looked)
	}
}

// However many objects cannot be written, those after them are.
func TestWhatIsRefusedKeepsNothingElseFromBeingWritten(t *testing.T) {
	refused := many(batchSize + 10)
	e := &tenant{values: secrets(append(slices.Clone(refused), "z")...), answers: map[string]int{}}
	for _, name := range refused {
		e.answers[name] = http.StatusForbidden
	}
	progress, err := rewriterOf(t, e).Run(t.Context())
	if err == nil || progress.Rewritten != 1 || progress.Left["secrets"] != len(refused) || e.values["/registry/secrets/default/z"] != ofNext {
		t.Errorf("it came to %+v, %v", progress, err)
	}
}

// One object that an admission webhook of the tenant refuses does not keep the others from being written, and is told.
func TestAnObjectThatIsRefusedIsTold(t *testing.T) {
	e := &tenant{values: secrets("a", "b"), answers: map[string]int{"a": http.StatusForbidden}}
	r := rewriterOf(t, e)
	for range 2 {
		progress, err := r.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "write Secret default/a again: a webhook denied it") || progress.Done ||
			progress.Left["secrets"] != 1 || progress.Rewritten != 1 || e.values["/registry/secrets/default/b"] != ofNext {
			t.Fatalf("it came to %+v, %v", progress, err)
		}
	}
	delete(e.answers, "a")
	r.later(pause)
	if progress, err := r.Run(t.Context()); err != nil || !progress.Done || progress.Rewritten != 2 {
		t.Errorf("it came to %+v, %v", progress, err)
	}
}

func TestTheFirstReasonsAreTold(t *testing.T) {
	e := &tenant{values: secrets(many(5)...), answers: map[string]int{}}
	e.values["/registry/example.org/allowlists/b"], e.values["/registry/minions/c"] = ofFormer, ofFormer
	for _, name := range append(many(5), "b", "c") {
		e.answers[name] = http.StatusInternalServerError
	}
	_, err := rewriterOf(t, e).Run(t.Context())
	for _, part := range []string{"AllowList /b", "Node /c", "Secret default/a-000000"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not told: %v", part, err)
		}
	}
	if err != nil && strings.Count(err.Error(), "write ") != mostErrors {
		t.Errorf("it tells %v", err)
	}
}

// A pass reads all of etcd: one that brings nothing forward is not followed by another at once.
func TestAPassThatBringsNothingForwardIsFollowedByAPause(t *testing.T) {
	for name, test := range map[string]struct {
		answers map[string]int
		stuck   bool
		passes  int
	}{
		"all is refused": {answers: map[string]int{"a": http.StatusForbidden}, passes: 1},
		"what is written is of the former key again": {stuck: true, passes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := &tenant{values: secrets("a"), answers: test.answers}
			r := rewriterOf(t, e)
			if test.stuck {
				r.Etcds = []Etcd{func(ctx context.Context, from string, do func(string, []byte) bool) (string, error) {
					e.values["/registry/secrets/default/a"] = ofFormer
					return e.read(ctx, from, do)
				}}
			}
			for round := range 3 {
				for range 3 {
					if progress, _ := r.Run(t.Context()); progress.Done || progress.Left["secrets"] != 1 {
						t.Errorf("it came to %+v", progress)
					}
				}
				if e.reads != test.passes+round {
					t.Fatalf("in round %d etcd was read %d times", round, e.reads)
				}
				r.later(pause - time.Second)
				_, _ = r.Run(t.Context())
				if e.reads != test.passes+round {
					t.Fatalf("it is read before the pause is over")
				}
				r.later(time.Second)
			}
		})
	}
}

// What is of the former key and of no API is left, and keeps it from being done.
func TestWhatTheAPIDoesNotHaveIsLeft(t *testing.T) {
	e := &tenant{values: secrets("a")}
	e.values["/registry/example.org/widgets/default/w"] = ofFormer
	e.values["/registry/ranges/serviceips"] = ofFormer
	r := rewriterOf(t, e)
	progress, err := r.Run(t.Context())
	if err == nil || err.Error() != "no API that API servers serve has ranges, widgets.example.org" || progress.Done || progress.Rewritten != 1 ||
		!maps.Equal(progress.Left, map[string]int{"widgets.example.org": 1, "ranges": 1}) ||
		!maps.Equal(progress.Unserved, map[string]bool{"widgets.example.org": true, "ranges": true}) {
		t.Errorf("it came to %+v, %v", progress, err)
	}
}

// Servers of the tenant that it has registered as APIs are asked for nothing.
func TestServersOfTheTenantAreNotAsked(t *testing.T) {
	e := &tenant{values: map[string]string{"/registry/hostile.example.org/things/a/b": ofFormer, "/registry/hostile.k8s.io/things/a/b": ofFormer}}
	progress, err := rewriterOf(t, e).Run(t.Context())
	if err == nil || progress.Left["things.hostile.example.org"] != 1 || progress.Left["things.hostile.k8s.io"] != 1 || len(e.patched) > 0 {
		t.Errorf("it came to %+v, %v", progress, err)
	}
}

// Nothing of what the API answers to a write comes into memory but its bytes, and those have a bound. No user of the tenant can have it
// left alone by large objects.
func TestAnswersToWritesAreBoundedAndNotDecoded(t *testing.T) {
	const item = `,{"name":"nobody"}`
	items := func(size int) string {
		return `{"metadata":{"ownerReferences":[{}` + strings.Repeat(item, size/len(item))
	}
	e := &tenant{values: secrets("a"), says: items(maxAnswer / 2)}
	if progress, err := rewriterOf(t, e).Run(t.Context()); err != nil || !progress.Done {
		t.Errorf("of an answer that is not JSON it came to %+v, %v", progress, err)
	}
	e = &tenant{values: secrets(many(5)...), says: items(2 * maxAnswer)}
	r, guard := rewriterWithGuard(t, e)
	progress, err := r.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "has more than 4 MiB") || progress.Done || len(e.patched) != 5 {
		t.Errorf("it came to %+v, %v", progress, err)
	}
	if problem := guard.Problem(); problem != "" {
		t.Errorf("against the tenant there is: %s", problem)
	}
}

// An API that is away does not keep the pass from telling how much is left.
func TestWithoutTheAPIWhatIsLeftIsCounted(t *testing.T) {
	e := &tenant{values: secrets(many(batchSize + 5)...)}
	r := rewriterOf(t, e)
	connect := r.Connect
	r.Connect = func() (*rest.Config, error) { return nil, errors.New("it is away") }
	progress, err := r.Run(t.Context())
	if err == nil || err.Error() != "it is away" || progress.Left["secrets"] != batchSize+5 || progress.Done {
		t.Fatalf("it came to %+v, %v", progress, err)
	}
	r.Connect = connect
	r.later(pause)
	if progress, err := r.Run(t.Context()); err != nil || !progress.Done {
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
	if progress, err := r.Run(t.Context()); err == nil || progress.Done || progress.Left["events"] != 1 {
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

// Tenants name resources: a bounded number of them is counted apart.
func TestCountsAreBounded(t *testing.T) {
	found, settled := count{}, count{}
	for i := range 2 * mostResources {
		found.add(fmt.Sprintf("r-%d", i))
		if i < mostResources {
			settled.add(fmt.Sprintf("r-%d", i))
		}
	}
	if left := found.without(settled); found.total() != 2*mostResources || len(found) != mostResources+1 || !maps.Equal(left, count{others: mostResources}) {
		t.Errorf("of %d in %d resources are left %v", found.total(), len(found), left)
	}
}
