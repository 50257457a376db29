package journal

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

// server is an API server that keeps ConfigMaps. Its first answers to requests of a method may be others.
type server struct {
	*httptest.Server
	others map[string][]http.HandlerFunc

	lock sync.Mutex
	// methods are those of all requests, opened the number of connections.
	methods []string
	opened  int
	keys    map[string]*corev1.ConfigMap
}

func newServer(t *testing.T, others map[string][]http.HandlerFunc) *server {
	s := &server{others: others, keys: map[string]*corev1.ConfigMap{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		s.lock.Lock()
		defer s.lock.Unlock()
		if state == http.StateNew {
			s.opened++
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// access is the way to it, in the encoding that it knows.
func (s *server) access() *rest.Config {
	return &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	s.lock.Lock()
	s.methods = append(s.methods, request.Method)
	if others := s.others[request.Method]; len(others) > 0 {
		s.others[request.Method] = others[1:]
		s.lock.Unlock()
		others[0](w, request)
		return
	}
	defer s.lock.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch request.Method {
	case http.MethodPost:
		key := &corev1.ConfigMap{}
		if err := json.NewDecoder(request.Body).Decode(key); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.keys[key.Name] = key
		_ = json.NewEncoder(w).Encode(key)
	case http.MethodGet:
		if name := path.Base(request.URL.Path); name != "configmaps" {
			_ = json.NewEncoder(w).Encode(s.keys[name])
			return
		}
		list := &corev1.ConfigMapList{}
		for _, key := range s.keys {
			list.Items = append(list.Items, *key)
		}
		_ = json.NewEncoder(w).Encode(list)
	}
}

// seen are the methods of all requests and the number of connections until now.
func (s *server) seen() ([]string, int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.methods), s.opened
}

// answer is an answer of a status; client-go sends a request again that was told to come again.
func answer(status int, comeAgain bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if comeAgain {
			w.Header().Set("Retry-After", "0")
		}
		w.WriteHeader(status)
	}
}

// cut ends the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// another answers with a value that nobody wrote.
func another(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&corev1.ConfigMap{Data: map[string]string{value: "another"}})
}

func newTestJournal(t *testing.T, config *rest.Config) *Journal {
	t.Helper()
	j, err := newJournal(Options{Name: "test", Config: config, Namespace: "default", Rate: 50})
	if err != nil {
		t.Fatal(err)
	}
	j.watch = &watch{}
	return j
}

// The first key is written and read over new connections, the sixth over a kept one, as many after them.
func TestARequestFailsWhenClientGoReturnsAnErrorWhetherItWritesOrReads(t *testing.T) {
	const write, read = http.MethodPost, http.MethodGet
	for name, test := range map[string]struct {
		others       map[string][]http.HandlerFunc
		methods      []string
		acknowledged int
		// failed is what failed, lost what is said of a key that is not as it was acknowledged.
		failed, lost string
		// raw errors over new connections; keptRaw are those over a kept one when they are not the same.
		raw     load.Raw
		keptRaw *load.Raw
	}{
		"a key that is written and read back": {nil, []string{write, read}, 1, "", "", load.Raw{}, nil},
		"a write that is told to come again": {
			map[string][]http.HandlerFunc{write: {answer(429, true), answer(503, true)}},
			[]string{write, write, write, read}, 1, "", "", load.Raw{TooMany: 1, ServerErrors: 1}, nil,
		},
		"a write whose connection breaks": {
			map[string][]http.HandlerFunc{write: {cut}}, []string{write}, 0, "write of", "", load.Raw{Broken: 1}, nil,
		},
		"a read that is told to come again": {
			map[string][]http.HandlerFunc{read: {answer(429, true), answer(503, true)}},
			[]string{write, read, read, read}, 1, "", "", load.Raw{TooMany: 1, ServerErrors: 1}, nil,
		},
		"a read whose connection breaks": {
			map[string][]http.HandlerFunc{read: {cut}}, []string{write, read, read}, 1, "", "", load.Raw{Broken: 1},
			// net/http sends it again by itself, and nobody above sees it.
			&load.Raw{},
		},
		"a read that is answered with an error": {
			map[string][]http.HandlerFunc{read: {answer(500, false)}}, []string{write, read}, 1, "read of", "", load.Raw{ServerErrors: 1}, nil,
		},
		"a read that does not find the key": {
			map[string][]http.HandlerFunc{read: {answer(404, false)}}, []string{write, read}, 1, "read of", "", load.Raw{}, nil,
		},
		"a read that brings another value": {
			map[string][]http.HandlerFunc{read: {another}}, []string{write, read}, 1, "", `is "another"`, load.Raw{}, nil,
		},
	} {
		for connection, i := range map[string]int{"a new connection": 0, "a kept one": 5} {
			t.Run(name+" over "+connection, func(t *testing.T) {
				s := newServer(t, maps.Clone(test.others))
				j := newTestJournal(t, s.access())
				j.put(t.Context(), i)
				result := j.Result()
				if result.Acknowledged != test.acknowledged || !says(result.Failed, test.failed) {
					t.Errorf("%s: failed %q, want %d acknowledged and failed %q", result, result.Failed, test.acknowledged, test.failed)
				}
				raw := test.raw
				if i != 0 && test.keptRaw != nil {
					raw = *test.keptRaw
				}
				if result.Raw != raw {
					t.Errorf("raw errors %+v, want %+v", result.Raw, raw)
				}
				if len(result.ServerErrors) != raw.ServerErrors || raw.ServerErrors > 0 && !strings.Contains(result.String(), ": 50") {
					t.Errorf("of %d answers 5xx it tells %q", raw.ServerErrors, result.ServerErrors)
				}
				if methods, _ := s.seen(); !slices.Equal(methods, test.methods) {
					t.Errorf("sent %v, want %v", methods, test.methods)
				}
				api, err := kubernetes.NewForConfig(s.access())
				if err != nil {
					t.Fatal(err)
				}
				if lost, err := j.Lost(t.Context(), api); err != nil || !says(lost, test.lost) {
					t.Errorf("lost %q, %v, want %q", lost, err, test.lost)
				}
			})
		}
	}
}

// says reports whether there is one line, which has a text; none when the text is empty.
func says(lines []string, text string) bool {
	if text == "" {
		return len(lines) == 0
	}
	return len(lines) == 1 && strings.Contains(lines[0], text)
}

func TestEveryFifthKeyIsReadAndEveryTenthGoesOverNewConnections(t *testing.T) {
	const keys = 40
	s := newServer(t, nil)
	j := newTestJournal(t, s.access())
	for i := range keys {
		j.put(t.Context(), i)
	}
	methods, opened := s.seen()
	reads := len(slices.DeleteFunc(methods, func(method string) bool { return method != http.MethodGet }))
	if result := j.Result(); reads != keys/5 || result.Read != reads || result.Acknowledged != keys {
		t.Errorf("%d reads: %s", reads, result)
	}
	// A tenth are written and read over connections of their own; all else goes over one.
	if want := 2*keys/10 + 1; opened != want {
		t.Errorf("%d connections, want %d", opened, want)
	}
}

func TestANewConnectionThatIsRefusedIsBrokenAndItsRequestFailed(t *testing.T) {
	for name, test := range map[string]struct {
		refused      int
		acknowledged int
		failed       string
	}{
		"that of a write": {1, 0, "write of"},
		"that of a read":  {2, 1, "read of"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			dials := 0
			access := s.access()
			access.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials++; dials == test.refused {
					return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			j := newTestJournal(t, access)
			j.put(t.Context(), 0)
			result := j.Result()
			if result.Acknowledged != test.acknowledged || !says(result.Failed, test.failed) || !says(result.Failed, "connection refused") {
				t.Errorf("%s: failed %q", result, result.Failed)
			}
			if got, want := result.Raw, (load.Raw{Broken: 1}); got != want || dials != test.refused {
				t.Errorf("raw errors %+v of %d connections, want %+v", got, dials, want)
			}
			j.put(t.Context(), 10)
			if now := j.Result(); now.Acknowledged != test.acknowledged+1 || len(now.Failed) != 1 {
				t.Errorf("what comes next is not as usual: %s", now)
			}
		})
	}
}

func TestWritesStandStillWhileNoneIsAcknowledged(t *testing.T) {
	s := newServer(t, map[string][]http.HandlerFunc{})
	j := newTestJournal(t, s.access())
	// A write was acknowledged a minute before this one, and then two fail.
	j.advanced = time.Now().Add(-time.Minute)
	j.put(t.Context(), 1)
	if still := j.Result().Still; still < time.Minute || still > 2*time.Minute {
		t.Errorf("writes stood still for %s, want a minute", still)
	}
	j.still, j.advanced = 0, time.Now().Add(-time.Hour)
	s.others[http.MethodPost] = []http.HandlerFunc{answer(500, false), answer(500, false)}
	j.put(t.Context(), 2)
	j.put(t.Context(), 3)
	if still := j.Result().Still; still < time.Hour {
		t.Errorf("writes that fail end it after %s", still)
	}
	j.put(t.Context(), 4)
	j.ended = time.Now().Add(time.Minute)
	if still := j.Result().Still; still < time.Hour || still > 2*time.Hour {
		t.Errorf("the longest is forgotten: %s", still)
	}
}

func TestWhatIsDueOfAJournalEndsWhenItIsStopped(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	j := newTestJournal(t, &rest.Config{Host: "http://127.0.0.1:1"})
	j.stop = func() {}
	j.began, j.ended = began, began.Add(10*time.Second)
	j.Stop()
	if due := j.Result().Due; due != 500 {
		t.Errorf("%d writes, want 500 of 10 s", due)
	}
}
