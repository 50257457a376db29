package standin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Tenants are the APIs of tenants, and nothing else of them.
type Tenants struct {
	host      *Host
	discovery *discovery
}

// NewTenants makes Tenants that answer about kinds as the API server does that access reaches.
func NewTenants(access *rest.Config) (*Tenants, error) {
	asks, err := rest.HTTPClientFor(access)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(access)
	if err != nil {
		return nil, err
	}
	host := &Host{}
	host.apis = host.newAPIServer()
	return &Tenants{host: host, discovery: &discovery{client: asks, server: server}}, nil
}

// Add serves the API of one tenant at an address of this machine.
func (t *Tenants) Add(address string, certificate tls.Certificate) (*Tenant, error) {
	tenant := &Tenant{&api{certificate: certificate, objects: map[string][]byte{}, discovery: t.discovery.answer}}
	return tenant, t.host.listen(address, &place{api: tenant.api})
}

// Stop ends all APIs.
func (t *Tenants) Stop() error { return t.host.apis.Close() }

// Connections counts the connections that were ever made, and those that are open.
func (t *Tenants) Connections() (made, open int64) {
	return t.host.toAPIs.Load(), t.host.openAPIs.Load()
}

// Tenant is the API of one tenant, for what its kubelets and controllers would do.
type Tenant struct{ api *api }

// Watched reports whether somebody watches anything.
func (t *Tenant) Watched() bool {
	t.api.lock.Lock()
	defer t.api.lock.Unlock()
	return len(t.api.watchers) > 0
}

// Put makes or replaces an object.
func (t *Tenant) Put(object client.Object) error {
	kind, err := apiutil.GVKForObject(object, scheme.Scheme)
	if err != nil {
		return err
	}
	at, err := pathOf(object)
	if err != nil {
		return err
	}
	sent := &unstructured.Unstructured{}
	if sent.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
		return err
	}
	sent.SetGroupVersionKind(kind)
	t.api.lock.Lock()
	defer t.api.lock.Unlock()
	_, err = t.api.keep(at, sent, t.api.objects[at] != nil)
	return err
}

// Get reads an object by its name, and reports whether it is there.
func (t *Tenant) Get(object client.Object) (bool, error) {
	at, err := pathOf(object)
	if err != nil {
		return false, err
	}
	t.api.lock.Lock()
	raw := t.api.objects[at]
	t.api.lock.Unlock()
	if raw == nil {
		return false, nil
	}
	return true, json.Unmarshal(raw, object)
}

// pathOf is where an API server has an object.
func pathOf(object client.Object) (string, error) {
	kind, err := apiutil.GVKForObject(object, scheme.Scheme)
	if err != nil {
		return "", fmt.Errorf("find the path of %T: %w", object, err)
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	root := "/apis"
	if kind.Group == "" {
		root = "/api"
	}
	namespace := ""
	if object.GetNamespace() != "" {
		namespace = "namespaces/" + object.GetNamespace()
	}
	return path.Join(root, kind.Group, kind.Version, namespace, plural.Resource, object.GetName()), nil
}

// kindAt is the kind of the objects below a path.
func kindAt(at string) schema.GroupVersionKind {
	parts := strings.Split(strings.Trim(at, "/"), "/")
	version := schema.GroupVersion{Version: "v1"}
	if parts[0] == "apis" {
		version = schema.GroupVersion{Group: parts[1], Version: parts[2]}
	}
	for kind := range scheme.Scheme.KnownTypes(version) {
		if plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind)); plural.Resource == path.Base(at) {
			return version.WithKind(kind)
		}
	}
	return schema.GroupVersionKind{}
}

// discovery has what an API server answers about kinds, by what was asked.
type discovery struct {
	client *http.Client
	server *url.URL
	known  sync.Map
}

type discovered struct {
	kind string
	body []byte
}

func (d *discovery) answer(r *http.Request) (kind string, body []byte, err error) {
	key := r.URL.Path + " " + r.Header.Get("Accept")
	if known, ok := d.known.Load(key); ok {
		return known.(discovered).kind, known.(discovered).body, nil
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), http.MethodGet, d.server.JoinPath(r.URL.Path).String(), nil)
	if err != nil {
		return "", nil, err
	}
	request.Header.Set("Accept", r.Header.Get("Accept"))
	answer, err := d.client.Do(request)
	if err != nil {
		return "", nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // It is only read.
	if body, err = io.ReadAll(answer.Body); err != nil {
		return "", nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("%s answers %s", r.URL.Path, answer.Status)
	}
	kind = answer.Header.Get("Content-Type")
	d.known.Store(key, discovered{kind, body})
	return kind, body, nil
}
