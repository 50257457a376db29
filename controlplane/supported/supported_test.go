package supported

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const (
	newer   = "releases:\n- {minor: v1.36, etcd: 3.6.8-0, coreDNS: v1.14.2, konnectivity: v0.34.0}\n- {minor: v1.37, etcd: 3.7.0-0, coreDNS: v1.15.0, konnectivity: v0.35.0}\n"
	invalid = "releases:\n- {minor: v1.37}\n"
)

var key = client.ObjectKey{Namespace: "kok-system", Name: versions.ConfigMapName}

// fixture is a management cluster with one control plane.
type fixture struct {
	*Versions
	t      *testing.T
	client client.Client
	events *events.FakeRecorder
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	// unlisted is the error of lists of control planes.
	unlisted error
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), controlplanev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, events: events.NewFakeRecorder(10)}
	f.client = fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}}).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if f.unlisted != nil {
				return f.unlisted
			}
			return c.List(ctx, list, options...)
		}}).Build()
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(f.queue.ShutDown)
	f.Versions = &Versions{key: key, reader: f.client, recorder: f.events, controlPlanes: f.client}
	if err := f.Start(t.Context(), f.queue); err != nil {
		t.Fatal(err)
	}
	if err := f.Load(t.Context(), f.client); err != nil {
		t.Fatal(err)
	}
	return f
}

// write makes the ConfigMap hold a table; an empty one deletes it. Then the controller is called.
func (f *fixture) write(table string) {
	f.t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if err := client.IgnoreNotFound(f.client.Delete(f.t.Context(), configMap)); err != nil {
		f.t.Fatal(err)
	}
	if table != "" {
		configMap.ResourceVersion = ""
		configMap.Data = map[string]string{versions.ConfigMapKey: table}
		if err := f.client.Create(f.t.Context(), configMap); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.reconcile(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) reconcile() error {
	_, err := f.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: key})
	return err
}

func (f *fixture) expect(step, table string, woken int) {
	f.t.Helper()
	if got := f.Table().String(); got != table {
		f.t.Errorf("%s: %s are supported, want %s", step, got, table)
	}
	if got := f.queue.Len(); got != woken {
		f.t.Errorf("%s: %d control planes are reconciled, want %d", step, got, woken)
	}
	for f.queue.Len() > 0 {
		request, _ := f.queue.Get()
		f.queue.Done(request)
	}
}

func (f *fixture) said() []string {
	var said []string
	for {
		select {
		case event := <-f.events.Events:
			said = append(said, event)
		default:
			return said
		}
	}
}

const builtIn = "v1.34, v1.35 and v1.36"

func TestTheZeroValueHasTheTableThatIsBuiltIn(t *testing.T) {
	if got := (&Versions{}).Table(); got != versions.BuiltIn() {
		t.Errorf("it has %s", got)
	}
}

func TestTheConfigMapIsTheTableFromTheMomentThatItIsSeen(t *testing.T) {
	f := newFixture(t)
	f.expect("without it", builtIn, 0)
	f.write(newer)
	f.expect("with it", "v1.36 and v1.37", 1)
	if release, err := f.Table().Release("v1.37.0"); err != nil || release.Etcd != "3.7.0-0" {
		t.Errorf("v1.37.0 goes with %v, %v", release, err)
	}
	f.write(newer + "# a comment more\n")
	f.expect("with the same table", "v1.36 and v1.37", 0)
	f.write(strings.Replace(newer, "3.7.0-0", "3.7.1-0", 1))
	f.expect("with another image", "v1.36 and v1.37", 1)
	f.write("")
	f.expect("when it is gone", builtIn, 1)
	if err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	f.expect("when nothing happened", builtIn, 0)
}

func TestAManagerStartsWithTheTableOfTheConfigMap(t *testing.T) {
	f := newFixture(t)
	f.write(newer)
	f.expect("before", "v1.36 and v1.37", 1)
	next := &Versions{key: key, reader: f.client, recorder: f.events, controlPlanes: f.client}
	if err := next.Load(t.Context(), f.client); err != nil || next.Table().String() != "v1.36 and v1.37" {
		t.Errorf("it starts with %s, %v", next.Table(), err)
	}
}

func TestAnInvalidConfigMapChangesNothingAndSaysWhy(t *testing.T) {
	f := newFixture(t)
	f.write(invalid)
	f.expect("at first", builtIn, 0)
	f.write(newer)
	f.expect("corrected", "v1.36 and v1.37", 1)
	f.said()
	f.write(invalid)
	f.expect("broken again", "v1.36 and v1.37", 0)
	want := []string{`Warning InvalidVersions data[versions.yaml]: releases[0].etcd: "" is not an image tag; the table before stays in force: v1.36 and v1.37`}
	if said := f.said(); !slices.Equal(said, want) {
		t.Errorf("it says %q", said)
	}
}

func TestControlPlanesThatCouldNotBeListedAreReconciledByTheNextTry(t *testing.T) {
	f := newFixture(t)
	f.unlisted = errors.New("away")
	if err := f.client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string]string{versions.ConfigMapKey: newer},
	}); err != nil {
		t.Fatal(err)
	}
	if err := f.reconcile(); !errors.Is(err, f.unlisted) {
		t.Fatalf("err = %v", err)
	}
	f.expect("the table is in force at once", "v1.36 and v1.37", 0)
	f.unlisted = nil
	if err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	f.expect("the next try", "v1.36 and v1.37", 1)
}

func TestAManagerThatDoesNotLeadReconcilesNobody(t *testing.T) {
	f := newFixture(t)
	f.queue, f.Versions.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()), nil
	f.write(newer)
	f.expect("its webhooks know the table", "v1.36 and v1.37", 0)
}
