package apiservertest

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Slice serves one EndpointSlice, default/kubernetes, by list and watch, to clients with a
// certificate. Several servers may share one, as they share an etcd.
type Slice struct {
	// Query is the raw query of the last request.
	Query string
	// User is the common name of the last client.
	User string

	lock      sync.Mutex
	addresses []string
	version   int
	changed   chan struct{}
}

// NewSlice returns a Slice that lists addresses, each host:port.
func NewSlice(addresses ...string) *Slice {
	return &Slice{addresses: addresses, version: 1, changed: make(chan struct{})}
}

// Set changes what is listed and tells all watches.
func (s *Slice) Set(addresses ...string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.addresses = addresses
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// Caller is the common name of the last client and its query.
func (s *Slice) Caller() (user, query string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.User, s.Query
}

func (s *Slice) read() (discoveryv1.EndpointSlice, <-chan struct{}) {
	s.lock.Lock()
	defer s.lock.Unlock()
	slice := discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", ResourceVersion: strconv.Itoa(s.version)},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, address := range s.addresses {
		host, port, _ := net.SplitHostPort(address)
		number, _ := strconv.Atoi(port)
		name, port32 := "https", int32(number)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{host}})
		slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &port32}}
	}
	return slice, s.changed
}

// ServeHTTP answers list and watch as JSON.
func (s *Slice) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if len(r.TLS.PeerCertificates) == 0 {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized", Code: http.StatusUnauthorized,
		})
		return
	}
	s.lock.Lock()
	s.Query, s.User = r.URL.RawQuery, r.TLS.PeerCertificates[0].Subject.CommonName
	s.lock.Unlock()
	if r.URL.Query().Get("watch") == "" {
		slice, _ := s.read()
		_ = json.NewEncoder(w).Encode(discoveryv1.EndpointSliceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"},
			ListMeta: metav1.ListMeta{ResourceVersion: slice.ResourceVersion}, Items: []discoveryv1.EndpointSlice{slice},
		})
		return
	}
	s.watch(w, r)
}

func (s *Slice) watch(w http.ResponseWriter, r *http.Request) {
	send := func(kind string, slice discoveryv1.EndpointSlice) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": slice})
		w.(http.Flusher).Flush()
	}
	known := r.URL.Query().Get("resourceVersion")
	slice, changed := s.read()
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		send("ADDED", slice)
		send("BOOKMARK", discoveryv1.EndpointSlice{TypeMeta: slice.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: slice.ResourceVersion, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	} else if known != slice.ResourceVersion {
		send("MODIFIED", slice)
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
		slice, changed = s.read()
		send("MODIFIED", slice)
	}
}
