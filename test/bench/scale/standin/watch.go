package standin

import (
	"encoding/json"
	"net/http"
	urlpath "path"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one watch of the objects below a path.
type watcher struct {
	path string
	// wake has an element while there are events to send.
	wake chan struct{}

	lock   sync.Mutex
	events [][]byte
}

func (w *watcher) add(kind watch.EventType, object json.RawMessage) {
	event, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		return // All objects that are kept are JSON.
	}
	w.lock.Lock()
	w.events = append(w.events, append(event, '\n'))
	w.lock.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() [][]byte {
	w.lock.Lock()
	defer w.lock.Unlock()
	events := w.events
	w.events = nil
	return events
}

// tell tells those who watch; the caller holds the lock.
func (a *api) tell(path string, kind watch.EventType, object []byte) {
	for w := range a.watchers {
		if urlpath.Dir(path) == w.path {
			w.add(kind, object)
		}
	}
}

// watch sends events until the client goes. It has no history: what came after the version that the client knows is sent as added.
func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	began := a.startWatch(r)
	defer func() {
		a.lock.Lock()
		defer a.lock.Unlock()
		delete(a.watchers, began)
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for control := http.NewResponseController(w); ; {
		for _, event := range began.take() {
			if _, err := w.Write(event); err != nil {
				return
			}
		}
		if control.Flush() != nil {
			return
		}
		select {
		case <-began.wake:
		case <-r.Context().Done():
			return
		}
	}
}

// startWatch begins with what the client does not know. One that asks for all learns where these end, as an API server tells it.
func (a *api) startWatch(r *http.Request) *watcher {
	query := r.URL.Query()
	known, _ := strconv.Atoi(query.Get("resourceVersion"))
	whole := query.Get("sendInitialEvents") == "true"
	began := &watcher{path: r.URL.Path, wake: make(chan struct{}, 1)}
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.watchers == nil {
		a.watchers = map[*watcher]bool{}
	}
	a.watchers[began] = true
	for path, raw := range a.objects {
		object := &unstructured.Unstructured{}
		if urlpath.Dir(path) != r.URL.Path || object.UnmarshalJSON(raw) != nil {
			continue
		}
		if version, _ := strconv.Atoi(object.GetResourceVersion()); whole || version > known {
			began.add(watch.Added, raw)
		}
	}
	if whole {
		began.add(watch.Bookmark, endOfInitial(r.URL.Path, a.version))
	}
	return began
}

// endOfInitial is the object of a bookmark that ends what is there (KEP-3157).
func endOfInitial(path string, version int) json.RawMessage {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kindAt(path))
	object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	object.SetResourceVersion(strconv.Itoa(version))
	raw, _ := object.MarshalJSON() // It has strings alone.
	return raw
}
