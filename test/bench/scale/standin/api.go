package standin

import (
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
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// maxBody is more than any object that a manager writes to a tenant.
const maxBody = 4 << 20

// api is the API of one tenant: objects as they were sent, by their paths.
type api struct {
	certificate tls.Certificate
	asked       atomic.Bool

	lock    sync.Mutex
	objects map[string][]byte
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
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, answer := a.answer(r, body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// paths tell a list from an object, as an API server does.
var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func (a *api) answer(r *http.Request, body []byte) (status int, answer []byte) {
	asks, err := paths.NewRequestInfo(r)
	if err != nil {
		return http.StatusBadRequest, failure("BadRequest", http.StatusBadRequest)
	}
	method, path := r.Method, r.URL.Path
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
	case http.MethodPost, http.MethodPatch:
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(body); err != nil {
			return http.StatusBadRequest, failure("BadRequest", http.StatusBadRequest)
		}
		if method == http.MethodPost {
			path += "/" + object.GetName()
		}
		object.SetUID(uuid.NewUUID())
		object.SetResourceVersion("1")
		sent, err := object.MarshalJSON()
		if err != nil {
			return http.StatusInternalServerError, failure("InternalError", http.StatusInternalServerError)
		}
		a.objects[path] = sent
		return http.StatusCreated, sent
	case http.MethodDelete:
		delete(a.objects, path)
		return http.StatusOK, failure("", http.StatusOK)
	}
	return http.StatusMethodNotAllowed, failure("MethodNotAllowed", http.StatusMethodNotAllowed)
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
	answer, err = json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": items})
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
