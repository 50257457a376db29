package load

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

func TestEverySecondRequestIsAWriteAlsoOnEachConnection(t *testing.T) {
	for name, count := range map[string]int{"an even number of connections": 4, "an odd number": 5} {
		t.Run(name, func(t *testing.T) {
			r := &Requests{own: make([]string, count)}
			writes := make([]int, count)
			const rounds = 10
			for i := range rounds * count {
				if _, write := r.writesTo(i); write {
					writes[i%count]++
				}
			}
			for connection, got := range writes {
				if got != rounds/2 {
					t.Errorf("%d of %d requests of connection %d are writes", got, rounds, connection)
				}
			}
		})
	}
}

func TestRequestsWithoutAnObjectOfTheirOwnAreReads(t *testing.T) {
	for i := range 4 {
		if object, write := (&Requests{}).writesTo(i); write {
			t.Errorf("request %d changes %q", i, object)
		}
	}
}

// misbehaving is an API server whose answer to the n-th request, of which it keeps the methods, is the n-th of answers.
type misbehaving struct {
	answers []http.HandlerFunc

	lock    sync.Mutex
	methods []string
}

// ServeHTTP implements http.Handler.
func (m *misbehaving) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	m.lock.Lock()
	answer := m.answers[min(len(m.methods), len(m.answers)-1)]
	m.methods = append(m.methods, request.Method)
	m.lock.Unlock()
	answer(w, request)
}

func answer(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if status != http.StatusOK {
			w.Header().Set("Retry-After", "0")
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("{}"))
	}
}

// cut ends the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestWhatClientGoPutsRightIsNoFailureButARawError(t *testing.T) {
	const read, write = http.MethodGet, http.MethodPatch
	for name, test := range map[string]struct {
		request int
		answers []http.HandlerFunc
		methods []string
		failed  bool
		raw     Raw
	}{
		"a read that is answered":                {0, []http.HandlerFunc{answer(200)}, []string{read}, false, Raw{}},
		"a read that is told to come again":      {0, []http.HandlerFunc{answer(429), answer(503), answer(200)}, []string{read, read, read}, false, Raw{TooMany: 1, ServerErrors: 1}},
		"a read whose connection breaks":         {0, []http.HandlerFunc{cut, answer(200)}, []string{read, read}, false, Raw{Broken: 1}},
		"a write that is answered":               {1, []http.HandlerFunc{answer(200)}, []string{write}, false, Raw{}},
		"a write that is told to come again":     {1, []http.HandlerFunc{answer(429), answer(200)}, []string{write, write}, false, Raw{TooMany: 1}},
		"a write whose connection breaks":        {1, []http.HandlerFunc{cut, answer(200)}, []string{write}, true, Raw{Broken: 1}},
		"a write to an object that is not there": {1, []http.HandlerFunc{answer(404)}, []string{write}, true, Raw{}},
	} {
		t.Run(name, func(t *testing.T) {
			handler := &misbehaving{answers: test.answers}
			server := httptest.NewServer(handler)
			defer server.Close()
			r := &Requests{own: []string{"a", "b"}}
			api, err := client(func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }, r)
			if err != nil {
				t.Fatal(err)
			}
			r.send(t.Context(), api, test.request)
			failures := r.Failures(0, Forever)
			if failed := len(failures) > 0; failed != test.failed || r.Attempts() != 1 {
				t.Errorf("%d attempts, failures %v", r.Attempts(), failures)
			}
			server.Close() // Every handler has ended then, also that of a connection that broke.
			for _, failure := range failures {
				if failure.Write != (test.request == 1) {
					t.Errorf("of a write: %v", failure.Write)
				}
			}
			if !slices.Equal(handler.methods, test.methods) {
				t.Errorf("sent %v, want %v", handler.methods, test.methods)
			}
			if got := r.Raw(0, Forever); got != test.raw {
				t.Errorf("raw errors %+v, want %+v", got, test.raw)
			}
			if got := r.Raw(Now(), Forever); got != (Raw{}) {
				t.Errorf("raw errors of what was not sent: %+v", got)
			}
		})
	}
}
