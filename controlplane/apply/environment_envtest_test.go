//go:build envtest

package apply

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/envtest/plain"
)

var (
	environment = &envtest.Environment{}
	// person is a client without a cache, for what others do.
	person client.Client
)

func TestMain(m *testing.M) {
	plain.Main(m, environment, func(config *rest.Config) (err error) {
		person, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
		return err
	})
}

// journal notes the requests that write.
type journal struct {
	lock     sync.Mutex
	requests []string
}

// note is a wrapper of a transport.
func (j *journal) note(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			j.lock.Lock()
			j.requests = append(j.requests, request.Method+" "+request.URL.Path)
			j.lock.Unlock()
		}
		return inner.RoundTrip(request)
	})
}

// writes are the requests since it was last called.
func (j *journal) writes() []string {
	j.lock.Lock()
	defer j.lock.Unlock()
	requests := j.requests
	j.requests = nil
	return requests
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// noted is the configuration of a client of which writes are noted.
func noted() (*rest.Config, *journal) {
	noted := &journal{}
	config := rest.CopyConfig(environment.Config)
	config.QPS = -1
	config.Wrap(noted.note)
	return config, noted
}

// trimming is a client that shows only what a cache keeps.
type trimming struct{ client.Client }

func (c trimming) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, object, options...); err != nil {
		return err
	}
	_, err := Trim(object)
	return err
}

// applier returns an Applier without a cache, whose client shows only what a cache keeps.
func applier(t *testing.T) (*Applier, *journal) {
	t.Helper()
	config, noted := noted()
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return New(trimming{c}, c), noted
}

// cachedClient reads from a cache, as the manager's does.
func cachedClient(t *testing.T) (client.Client, *journal) {
	t.Helper()
	config, noted := noted()
	c, err := cluster.New(config, func(o *cluster.Options) { o.Scheme, o.Cache.DefaultTransform = clientgoscheme.Scheme, Trim })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	if !c.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache was not filled")
	}
	return c.GetClient(), noted
}

func namespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := person.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// rendered are the golden renderings of all components in one variant, moved to a namespace. The
// addresses of Services are left to the API server, as in a first reconcile.
func rendered(t *testing.T, variant, namespace string) []client.Object {
	t.Helper()
	paths, err := filepath.Glob("../components/testdata/*/" + variant + ".yaml")
	if err != nil || len(paths) < 5 {
		t.Fatalf("found %d golden files of variant %s: %v", len(paths), variant, err)
	}
	var objects []client.Object
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(raw), "---\n") {
			if document == "" {
				continue
			}
			fields := map[string]any{}
			if err := yaml.Unmarshal([]byte(document), &fields); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			object, err := clientgoscheme.Scheme.New((&unstructured.Unstructured{Object: fields}).GroupVersionKind())
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, object); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if service, ok := object.(*corev1.Service); ok {
				service.Spec.ClusterIP = ""
			}
			object.(client.Object).SetNamespace(namespace)
			objects = append(objects, object.(client.Object))
		}
	}
	return objects
}

// variants are the names of the golden renderings.
func variants(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("../components/testdata/kube-apiserver")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	if len(names) == 0 {
		t.Fatal("there are no golden renderings")
	}
	return names
}

// pick is the only object of a type among the rendered.
func pick[T client.Object](t *testing.T, objects []client.Object, name string) T {
	t.Helper()
	for _, object := range objects {
		if picked, ok := object.(T); ok && object.GetName() == name {
			return picked
		}
	}
	var none T
	t.Fatalf("no %T %s was rendered", none, name)
	return none
}

func mustApply(t *testing.T, a *Applier, object client.Object) (client.Object, bool) {
	t.Helper()
	result, err := a.Apply(t.Context(), object.DeepCopyObject().(client.Object))
	if err != nil {
		t.Fatal(err)
	}
	return result.Live, result.Wrote
}

// current is an object as the API server has it now.
func current[T client.Object](t *testing.T, object T) T {
	t.Helper()
	live := object.DeepCopyObject().(T)
	if err := person.Get(t.Context(), client.ObjectKeyFromObject(object), live); err != nil {
		t.Fatal(err)
	}
	return live
}

// seen waits until a cache has an object as the API server has it.
func seen(t *testing.T, cached client.Reader, object client.Object) {
	t.Helper()
	want := current(t, object).GetResourceVersion()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		live := object.DeepCopyObject().(client.Object)
		err := cached.Get(ctx, client.ObjectKeyFromObject(object), live)
		return err == nil && live.GetResourceVersion() == want, client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Fatalf("wait until the cache has %T %s: %v", object, object.GetName(), err)
	}
}
