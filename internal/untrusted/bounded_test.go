package untrusted

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// endless is the body of an answer without an end. It notes that it was closed.
type endless struct{ closed bool }

func (e *endless) Read(p []byte) (int, error) { return len(p), nil }
func (e *endless) Close() error               { e.closed = true; return nil }

type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(request *http.Request) (*http.Response, error) { return a(request) }

func TestWhatAnAPIServerAnswersIsBounded(t *testing.T) {
	const watch, list = "https://a/api/v1/pods?watch=1", "https://a/api/v1/pods"
	for name, test := range map[string]struct {
		url    string
		code   int
		header map[string]string
		length int64
		// length is what the answer announces, read how much is read of it; says is what the error says then, empty for none.
		read int64
		says string
	}{
		"a list":                          {list, http.StatusOK, nil, -1, 1 << 20, ""},
		"a list without an end":           {list, http.StatusOK, nil, -1, maxAnswer + 1, "more than 64 MiB"},
		"a list that says how long it is": {list, http.StatusOK, nil, maxAnswer + 1, 1, "more than 64 MiB"},
		"a failure without an end":        {watch, http.StatusForbidden, nil, -1, maxAnswer + 1, "more than 64 MiB"},
		"a list that is compressed":       {list, http.StatusOK, map[string]string{"Content-Encoding": "gzip"}, -1, 1, `by "gzip", although nobody asked`},
		"a watch":                         {watch, http.StatusOK, map[string]string{"Content-Type": "application/vnd.kubernetes.protobuf;stream=watch"}, -1, 2 * maxAnswer, ""},
		"a watch that is compressed":      {watch, http.StatusOK, map[string]string{"Content-Type": "application/vnd.kubernetes.protobuf", "Content-Encoding": "br"}, -1, 1, `by "br"`},
		"a watch whose events are JSON":   {watch, http.StatusOK, map[string]string{"Content-Type": "application/json"}, -1, 1, `answers a watch in "application/json"`},
		"a watch of which nobody knows":   {watch, http.StatusOK, nil, -1, 1, "and not in application/vnd.kubernetes.protobuf"},
		"a word that is no watch's":       {list + "?watch=never", http.StatusOK, nil, -1, maxAnswer + 1, "more than 64 MiB"},
		"a list that says it is nothing":  {list, http.StatusOK, map[string]string{"Content-Encoding": "identity"}, -1, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			body := &endless{}
			transport := Bounded(answering(func(*http.Request) (*http.Response, error) {
				answer := &http.Response{StatusCode: test.code, Header: http.Header{}, Body: body, ContentLength: test.length}
				for key, value := range test.header {
					answer.Header.Set(key, value)
				}
				return answer, nil
			}))
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(request)
			if err == nil {
				_, err = io.CopyN(io.Discard, answer.Body, test.read)
				_ = answer.Body.Close()
			}
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			if !body.closed {
				t.Error("the body is left open")
			}
		})
	}
}
