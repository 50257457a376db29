package standin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	urlpath "path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
)

// maxBody is more than any object that a manager writes to a tenant.
const maxBody = 4 << 20

// api is the API of one tenant: objects as they were sent, by their paths.
type api struct {
	certificate tls.Certificate
	asked       atomic.Bool
	// discovery answers what is asked of kinds; nil answers nothing.
	discovery func(*http.Request) (kind string, body []byte, err error)

	lock     sync.Mutex
	objects  map[string][]byte
	version  int
	watchers map[*watcher]bool
}

type apiKey struct{}

// newAPIServer is the one server behind the addresses of all tenants' APIs.
func (h *Host) newAPIServer() *http.Server {
	return &http.Server{
		ErrorLog:  log.New(io.Discard, "", 0), // A manager that restarts breaks connections.
		TLSConfig: h.serving(&h.toAPIs, func(at *place) *tls.Certificate { return &at.api.certificate }),
		ConnContext: func(ctx context.Context, connection net.Conn) context.Context {
			if at, err := h.placeOf(connection.LocalAddr()); err == nil {
				return context.WithValue(ctx, apiKey{}, at.api)
			}
			return ctx
		},
		ConnState: h.count,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if a, ok := r.Context().Value(apiKey{}).(*api); ok {
				a.ServeHTTP(w, r)
			}
		}),
	}
}

// ServeHTTP answers one request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" {
		a.asked.Store(true)
		_, _ = w.Write([]byte("ok"))
		return
	}
	asks, err := paths.NewRequestInfo(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case asks.Verb == "watch":
		a.watch(w, r)
	case !asks.IsResourceRequest && a.discovery != nil:
		a.discover(w, r)
	default:
		status, answer := a.answer(r, asks, body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(answer)
	}
}

// paths tell a list from an object, as an API server does.
var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func (a *api) discover(w http.ResponseWriter, r *http.Request) {
	kind, answer, err := a.discovery(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(answer)
}

func (a *api) answer(r *http.Request, asks *request.RequestInfo, body []byte) (status int, answer []byte) {
	method, path := r.Method, strings.TrimSuffix(r.URL.Path, "/"+asks.Subresource)
	a.lock.Lock()
	defer a.lock.Unlock()
	switch method {
	case http.MethodGet:
		if asks.Verb == "list" {
			return a.list(path, asks.LabelSelector)
		}
		if object := a.objects[path]; object != nil {
			return http.StatusOK, object
		}
		return http.StatusNotFound, failure("NotFound", http.StatusNotFound)
	case http.MethodPost, http.MethodPatch, http.MethodPut:
		object, err := decoded(body)
		if err != nil {
			return http.StatusBadRequest, failure("BadRequest", http.StatusBadRequest)
		}
		if method == http.MethodPost {
			path += "/" + object.GetName()
		}
		return a.write(method, path, object)
	case http.MethodDelete:
		a.remove(path)
		return http.StatusOK, failure("", http.StatusOK)
	}
	return http.StatusMethodNotAllowed, failure("MethodNotAllowed", http.StatusMethodNotAllowed)
}

// write keeps an object as it was sent; the caller holds the lock.
func (a *api) write(method, path string, object *unstructured.Unstructured) (status int, answer []byte) {
	was := &unstructured.Unstructured{}
	there := a.objects[path] != nil && was.UnmarshalJSON(a.objects[path]) == nil
	switch {
	case there && method == http.MethodPost:
		return http.StatusConflict, failure("AlreadyExists", http.StatusConflict)
	case there && method == http.MethodPut && object.GetResourceVersion() != was.GetResourceVersion():
		return http.StatusConflict, failure("Conflict", http.StatusConflict)
	}
	if sent, err := a.keep(path, object, there); err == nil {
		return http.StatusCreated, sent
	}
	return http.StatusInternalServerError, failure("InternalError", http.StatusInternalServerError)
}

// keep keeps an object, and tells those who watch; the caller holds the lock.
func (a *api) keep(path string, object *unstructured.Unstructured, there bool) ([]byte, error) {
	a.version++
	object.SetUID(uuid.NewUUID())
	object.SetResourceVersion(strconv.Itoa(a.version))
	sent, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	a.objects[path] = sent
	kind := watch.Added
	if there {
		kind = watch.Modified
	}
	a.tell(path, kind, sent)
	return sent, nil
}

// remove forgets an object, and tells those who watch; the caller holds the lock.
func (a *api) remove(path string) {
	if object := a.objects[path]; object != nil {
		delete(a.objects, path)
		a.tell(path, watch.Deleted, object)
	}
}

// decoded is an object that was sent as JSON, or by protobuf as clients send the kinds of Kubernetes.
func decoded(body []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		return object, object.UnmarshalJSON(body)
	}
	typed, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	object.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	object.SetGroupVersionKind(*kind)
	return object, err
}

// list answers with the objects below a path. Their list has no kind: a client takes the one that it asked for.
func (a *api) list(path, selector string) (status int, answer []byte) {
	selected, err := labels.Parse(selector)
	if err != nil {
		return http.StatusBadRequest, failure("BadRequest", http.StatusBadRequest)
	}
	items := []json.RawMessage{}
	for _, at := range slices.Sorted(maps.Keys(a.objects)) {
		object := &unstructured.Unstructured{}
		if urlpath.Dir(at) != path || object.UnmarshalJSON(a.objects[at]) != nil || !selected.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		items = append(items, a.objects[at])
	}
	answer, err = json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version)}, "items": items})
	if err != nil {
		return http.StatusInternalServerError, failure("InternalError", http.StatusInternalServerError)
	}
	return http.StatusOK, answer
}

// failure is the Status that an API server answers with; without a reason it is a success.
func failure(reason string, code int) []byte {
	status := "Failure"
	if reason == "" {
		status = "Success"
	}
	raw, _ := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": status, "reason": reason, "code": code})
	return raw
}
