package writes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const content = "nobody may read this"

func secret(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Annotations: map[string]string{"note": content}},
		StringData: map[string]string{"key": content},
	}
}

func deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "there"}}
}

// asks are all the ways to ask a client for something, with the write that each is; empty for none.
var asks = map[string]struct {
	ask   func(context.Context, client.Client) error
	wrote string
}{
	"a creation": {func(ctx context.Context, c client.Client) error { return c.Create(ctx, secret("new")) }, "create Secret team/new"},
	"an update":  {func(ctx context.Context, c client.Client) error { return c.Update(ctx, secret("there")) }, "update Secret team/there"},
	"a patch": {func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, secret("there"), client.MergeFrom(&corev1.Secret{}))
	}, "patch Secret team/there"},
	"an apply": {func(ctx context.Context, c client.Client) error {
		applied := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"key": content}}}
		applied.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		applied.SetNamespace("team")
		applied.SetName("applied")
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("test"))
	}, "apply ConfigMap team/applied"},
	"a deletion": {func(ctx context.Context, c client.Client) error { return c.Delete(ctx, secret("there")) }, "delete Secret team/there"},
	"a deletion of many": {func(ctx context.Context, c client.Client) error {
		return c.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("team"))
	}, "delete Secret "},
	"a patch of a status": {func(ctx context.Context, c client.Client) error {
		return c.Status().Patch(ctx, deployment(), client.MergeFrom(deployment()))
	}, "patch Deployment team/there status"},
	"an update of a status": {func(ctx context.Context, c client.Client) error { return c.Status().Update(ctx, deployment()) }, "update Deployment team/there status"},
	"a reading": {func(ctx context.Context, c client.Client) error {
		return c.Get(ctx, client.ObjectKey{Namespace: "team", Name: "there"}, &corev1.Secret{})
	}, ""},
	"a list": {func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.SecretList{}) }, ""},
}

// world is a cluster with the objects that are asked for.
func world() client.WithWatch {
	return fake.NewClientBuilder().WithObjects(secret("there"), deployment()).WithStatusSubresource(&appsv1.Deployment{}).Build()
}

// listen keeps the lines of the log.
func listen(ctx context.Context) (context.Context, *[]string) {
	lines := &[]string{}
	return ctrl.LoggerInto(ctx, funcr.New(func(_, line string) { *lines = append(*lines, line) }, funcr.Options{Verbosity: Verbosity})), lines
}

func counted(t *testing.T) float64 {
	t.Helper()
	sum := 0.0
	for _, verb := range []string{"create", "update", "patch", "apply", "delete"} {
		for _, kind := range []string{"Secret", "ConfigMap", "Deployment"} {
			sum += testutil.ToFloat64(total.WithLabelValues(Host, kind, verb))
		}
	}
	return sum
}

func TestEachWriteIsOneLineAndOneCount(t *testing.T) {
	for name, test := range asks {
		t.Run(name, func(t *testing.T) {
			ctx, lines := listen(t.Context())
			before := counted(t)
			if err := test.ask(Because(ctx, "etcd-data"), Tell(world(), Host)); err != nil {
				t.Fatal(err)
			}
			want := 0
			if test.wrote != "" {
				want = 1
			}
			if len(*lines) != want || counted(t)-before != float64(want) {
				t.Fatalf("%v were counted and %d logged, want %d: %v", counted(t)-before, len(*lines), want, *lines)
			}
			for _, line := range *lines {
				says(t, line, strings.Split(test.wrote, " "))
			}
		})
	}
}

// says fails unless a line is of the write: verb, kind, object and, for some, the subresource.
func says(t *testing.T, line string, wrote []string) {
	t.Helper()
	wanted := []string{
		`"level"=2`, `"step"="etcd-data"`, `"cluster"="host"`,
		fmt.Sprintf("%q=%q", "verb", wrote[0]), fmt.Sprintf("%q=%q", "kind", wrote[1]),
	}
	namespace, object, _ := strings.Cut(wrote[2], "/")
	if object != "" {
		wanted = append(wanted, fmt.Sprintf("%q=%q", "name", object), fmt.Sprintf("%q=%q", "namespace", namespace))
	}
	if len(wrote) > 3 {
		wanted = append(wanted, fmt.Sprintf("%q=%q", "subresource", wrote[3]))
	}
	if i := slices.IndexFunc(wanted, func(part string) bool { return !strings.Contains(line, part) }); i >= 0 {
		t.Errorf("the line lacks %s: %s", wanted[i], line)
	}
	if strings.Contains(line, content) {
		t.Errorf("the line has content: %s", line)
	}
}

func TestWhatTheServerRefusedIsNoWrite(t *testing.T) {
	errRefused := errors.New("refused")
	refusing := interceptor.NewClient(world(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errRefused
		},
	})
	ctx, lines := listen(t.Context())
	before := counted(t)
	if err := Tell(refusing, Host).Create(ctx, secret("new")); !errors.Is(err, errRefused) {
		t.Errorf("the error is %v", err)
	}
	if len(*lines) != 0 || counted(t) != before {
		t.Errorf("%v were counted, and logged were %v", counted(t)-before, *lines)
	}
}
