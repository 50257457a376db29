package tenantapi

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var blue = client.ObjectKey{Namespace: "team", Name: "blue"}

// before is a Guard with a clock, and a client of a server that passes it.
func before(t *testing.T, answer http.HandlerFunc) (*Guard, *clocktesting.FakeClock, func(path string) (read int, _ error)) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	clock := clocktesting.NewFakeClock(time.Now())
	guard := (&Guards{Clock: clock}).Of(blue)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	asking := &http.Client{Transport: guard.Wrap(transport)}
	return guard, clock, func(path string) (int, error) {
		response, err := asking.Get(server.URL + path)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close() //nolint:errcheck // It is read.
		n, err := io.Copy(io.Discard, response.Body)
		return int(n), err
	}
}

// endless writes until its client goes away, or has taken far too much.
func endless(w http.ResponseWriter) {
	part := make([]byte, 1<<16)
	for range 4 * maxWatch / len(part) {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

// empties answers with a beginning, and then with objects of two bytes.
func empties(begin string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(begin))
		part := bytes.Repeat([]byte("{},"), 10_000)
		for range maxAnswer / len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}
}

// bomb is small on the way and a gigabyte for who unpacks it.
func bomb(t *testing.T) []byte {
	t.Helper()
	packed := &bytes.Buffer{}
	writer, err := gzip.NewWriterLevel(packed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for part := make([]byte, 1<<20); packed.Len() < 1<<18; {
		if _, err := writer.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func TestFinding3AnAnswerOfATenantIsBounded(t *testing.T) {
	packed := bomb(t)
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		path   string
		most   int
		says   string
	}{
		"a body without an end": {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, "/api", maxAnswer + 1<<16, "more than 32768 KiB"},
		"a body that is told to be large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(1<<40))
			endless(w)
		}, "/api", 0, "more than 32768 KiB"},
		"a refusal without an end": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			endless(w)
		}, "/api", maxFailure + 1<<16, "more than 64 KiB"},
		"a refusal of a watch without an end": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			endless(w)
		}, "/api?watch=true", maxFailure + 1<<16, "more than 64 KiB"},
		"a watch without an end": {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, "/api?watch=true", maxWatch, ""},
		"a body that grows when it is unpacked": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed)
		}, "/api", 0, "compressed"},
		"another encoding": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
			_, _ = w.Write(make([]byte, maxAnswer))
		}, "/api", 0, "not JSON"},
		"another encoding of what was made": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write(make([]byte, maxAnswer))
		}, "/api", 0, "not JSON"},
		"an encoding that is not told": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write(make([]byte, maxAnswer))
		}, "/api", 0, "not JSON"},
		"objects without number":            {empties(`{"items":[`), "/api", 4 * maxValues, "more than 600000 objects and lists"},
		"lists without number":              {empties(`{"a\\\"":"\"", "items":[[],`), "/api", 4 * maxValues, "more than 600000 objects and lists"},
		"an event with objects that are so": {empties(`{"type":"ADDED"}{"object":[`), "/api?watch=true", 4 * maxValues, "more than 600000 objects and lists"},
	} {
		t.Run(name, func(t *testing.T) {
			guard, _, get := before(t, test.answer)
			read, err := get(test.path)
			if read > test.most || (test.says != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%d bytes were read, and the error is %v", read, err)
			}
			if guard.Problem() == "" {
				t.Error("it is not held against the tenant")
			}
		})
	}
}

// request is a request for a certificate as an API server tells it, with who wrote which of its fields, after it was approved and signed.
const request = `{"metadata":{"name":"csr-x","managedFields":[` +
	`{"manager":"kubelet","fieldsV1":{"f:metadata":{"f:generateName":{}},"f:spec":{"f:request":{},"f:signerName":{},"f:usages":{}}}},` +
	`{"manager":"manager","fieldsV1":{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Approved\"}":{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}}}}},` +
	`{"manager":"kube-controller-manager","fieldsV1":{"f:status":{"f:certificate":{}}}}]},` +
	`"spec":{"request":"LS0t","usages":["digital signature","client auth"],"groups":["system:nodes"],"extra":{"authentication.kubernetes.io/credential-id":["X509SHA256=0"]}},` +
	`"status":{"conditions":[{"type":"Approved"}],"certificate":"LS0t"}}`

func TestRequestsOfAllNodesThatThereMayBeAreNotTooMany(t *testing.T) {
	body := `{"items":[` + strings.Repeat(request+",", 2*5000) + `{}]}`
	_, _, get := before(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	if n, err := get(certificates); n != len(body) || err != nil {
		t.Errorf("%d bytes were read of %d: %v", n, len(body), err)
	}
}

// certificates is the path of an informer's list.
const certificates = "/apis/certificates.k8s.io/v1/certificatesigningrequests?"

func TestFinding3AListThatGoesOnIsBounded(t *testing.T) {
	for name, test := range map[string]struct{ bytes, pages int }{
		"large pages": {maxList / 8, 8},
		"many pages":  {2, maxListPages},
	} {
		t.Run(name, func(t *testing.T) {
			page := make([]byte, test.bytes)
			guard, _, get := before(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
			_, err := get(certificates + "limit=500&resourceVersion=0")
			for page := 1; page < test.pages && err == nil; page++ {
				_, err = get(certificates + "limit=500&continue=x")
			}
			if err != nil {
				t.Fatalf("as much as there may be: %v", err)
			}
			if _, err := get(certificates + "limit=500&continue=x"); err == nil || !guard.alone() {
				t.Errorf("one page more: %v; the tenant is left alone: %t", err, guard.alone())
			}
		})
	}
}

func TestListsThatAreKept(t *testing.T) {
	for query, isKept := range map[string]bool{
		"limit=500&resourceVersion=0": true, "limit=500&continue=x": true, "continue=x": true, // It may tell of pages that nobody asked for.
		"limit=100": false, "limit=100&continue=x": false, "": false, "resourceVersion=0": false,
	} {
		guard := (&Guards{}).Of(blue)
		if got := guard.listOf(httptest.NewRequest(http.MethodGet, certificates+query, nil)) != nil; got != isKept {
			t.Errorf("%q asks for a list that is kept: %t", query, got)
		}
	}
	guard := (&Guards{}).Of(blue)
	list := func(query string) *list {
		return guard.listOf(httptest.NewRequest(http.MethodGet, certificates+query, nil))
	}
	first := list("limit=500&resourceVersion=0")
	if list("limit=500&continue=x") != first || list("limit=500&continue=y") != first {
		t.Error("another page is of another list")
	}
	if list("limit=500&resourceVersion=0") == first {
		t.Error("a list that is asked for anew goes on with the last one")
	}
}

func TestAnAPIServerIsAskedForJSON(t *testing.T) {
	for accept, want := range map[string]string{
		"": "application/json",
		"application/vnd.kubernetes.protobuf, */*":                                        "*/*",
		"application/vnd.kubernetes.protobuf,application/json":                            "application/json",
		"application/vnd.kubernetes.protobuf":                                             "application/json",
		"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,text/plain": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,text/plain",
	} {
		request := httptest.NewRequest(http.MethodGet, "/api", nil)
		if accept != "" {
			request.Header.Set("Accept", accept)
		}
		if got := onlyJSON(request).Header.Get("Accept"); got != want {
			t.Errorf("%q becomes %q, want %q", accept, got, want)
		}
	}
}

func TestFinding3AnswersOfOneTenantAreBoundedTogether(t *testing.T) {
	guard, _, _ := before(t, nil)
	var err error
	for range 3 {
		body := &bounded{ReadCloser: io.NopCloser(bytes.NewReader(make([]byte, maxAnswer))), guard: guard, limit: maxAnswer}
		_, err = io.Copy(io.Discard, body)
		defer body.Close() //nolint:errcheck // It has no connection.
	}
	if err == nil || guard.Problem() != "" {
		t.Errorf("the third answer at the same time: %v; against the tenant: %q", err, guard.Problem())
	}
}

func TestWhatIsReadIsFreeAgain(t *testing.T) {
	guard, _, get := before(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswer)) })
	for range 4 {
		if read, err := get("/api"); read != maxAnswer || err != nil {
			t.Fatalf("%d bytes were read, and the error is %v", read, err)
		}
	}
	if held := guard.held.Load(); held != 0 {
		t.Errorf("%d bytes count as held", held)
	}
}

func TestFinding3AHostileTenantIsLeftAloneForATimeThatGrows(t *testing.T) {
	asked, hostile := atomic.Int32{}, atomic.Bool{}
	hostile.Store(true)
	guard, clock, get := before(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if hostile.Load() {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}
	})
	for _, step := range []struct {
		name string
		pass time.Duration
		// asks is whether the tenant is asked.
		asks bool
	}{
		{"the first time", 0, true},
		{"the second time", time.Second, true},
		{"the third time", time.Second, true},
		{"then it is left alone", time.Second, false},
		{"for a minute", firstPause - 2*time.Second, false},
		{"and asked again", time.Second, true},
		{"now it is left alone for two", firstPause, false},
		{"and asked again", firstPause, true},
	} {
		clock.Step(step.pass)
		before := asked.Load()
		_, err := get("/api")
		if err == nil || (asked.Load() > before) != step.asks {
			t.Errorf("%s: it was asked %d times, and the error is %v", step.name, asked.Load()-before, err)
		}
	}
	if problem := guard.Problem(); !strings.Contains(problem, "left alone for 4m0s") || !strings.Contains(problem, "redirect") {
		t.Errorf("the problem is %q", problem)
	}
	for range 20 {
		clock.Step(guard.pause)
		_, _ = get("/api")
	}
	if guard.pause != lastPause {
		t.Errorf("in the end it is left alone for %s", guard.pause)
	}
	hostile.Store(false)
	clock.Step(lastPause + forgiven)
	if _, err := get("/api"); err != nil || guard.Problem() != "" {
		t.Errorf("when it has become well: %v, %q", err, guard.Problem())
	}
}

func TestATenantThatIsAwayIsNotHostile(t *testing.T) {
	guard := (&Guards{}).Of(blue)
	asking := &http.Client{Transport: guard.Wrap(away{})}
	for range 10 {
		if _, err := asking.Get("http://tenant.example"); !errors.Is(err, errAway) { //nolint:bodyclose // There is none.
			t.Fatal(err)
		}
	}
	if problem := guard.Problem(); problem != "" {
		t.Errorf("the problem is %q", problem)
	}
}

var errAway = errors.New("connection refused")

type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) { return nil, errAway }

func TestGuardsAreForgottenWhenNobodyUsesThem(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	guards := &Guards{Clock: clock}
	first := guards.Of(blue)
	if guards.Of(blue) != first {
		t.Fatal("there are two before one tenant")
	}
	clock.Step(kept - time.Second)
	if err := first.pass(); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Minute)
	if guards.Of(blue) != first {
		t.Error("one that is used was forgotten")
	}
	clock.Step(kept)
	if guards.Of(client.ObjectKey{Name: "red"}); len(guards.guards) != 1 {
		t.Errorf("there are %d", len(guards.guards))
	}
}
