package metrics

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// OfManager compares the metrics of a manager, with those of the libraries that are built into it. setUp gives
// the manager its controllers; it is never started, and has no API server.
func OfManager(t *testing.T, program string, scheme *runtime.Scheme, setUp func(ctrl.Manager) error) {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(scheme.PrioritizedVersionsAllGroups())
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	// Nobody listens there.
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme: scheme,
		// Other tests of the package may run the same controllers.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return mapper, nil
		},
		NewClient: func(*rest.Config, client.Options) (client.Client, error) {
			return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).Build(), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := setUp(mgr); err != nil {
		t.Fatal(err)
	}
	registered, err := Registered(metrics.Registry.(Registry))
	if err != nil {
		t.Fatal(err)
	}
	Compare(t, program, registered)
}
