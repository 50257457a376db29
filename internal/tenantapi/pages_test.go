package tenantapi

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pages is a tenant that answers with so many pages of one object; none for pages without an end.
type pages struct {
	client.Reader
	// limit is how many objects a page may have. fill makes a page, and reports whether it was asked for as it should be.
	limit        int64
	fill         func(list client.ObjectList, asked *client.ListOptions) bool
	count, asked int
}

func (p *pages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	if p.asked++; asked.Limit != p.limit || (asked.Continue == "") != (p.asked == 1) || !p.fill(list, asked) {
		return context.Canceled
	}
	if p.asked != p.count {
		list.SetContinue("more")
	}
	return nil
}

// way is one to read objects of a tenant.
type way struct {
	// limit is the number of objects in a page, most the greatest number of pages, and tooMany what is said of one more.
	limit, most int
	tooMany     string
	// read calls seen for each object.
	read func(ctx context.Context, guard *Guard, tenant client.Reader, seen func()) error
	// fill is that of pages of an object.
	fill func(list client.ObjectList, asked *client.ListOptions, of metav1.ObjectMeta) bool
}

var ways = map[string]way{
	"Nodes": {
		ownPage, nodesPages, "more than 10000 Nodes",
		func(ctx context.Context, guard *Guard, tenant client.Reader, seen func()) error {
			return EachNode(ctx, guard, tenant, func(*corev1.Node) { seen() })
		},
		func(list client.ObjectList, _ *client.ListOptions, of metav1.ObjectMeta) bool {
			list.(*corev1.NodeList).Items = []corev1.Node{{ObjectMeta: of}}
			return true
		},
	},
	"pods": {
		ownPage, podsPages, "more than 150000 pods",
		func(ctx context.Context, guard *Guard, tenant client.Reader, seen func()) error {
			return EachPod(ctx, guard, tenant, func(*corev1.Pod) { seen() })
		},
		func(list client.ObjectList, _ *client.ListOptions, of metav1.ObjectMeta) bool {
			list.(*corev1.PodList).Items = []corev1.Pod{{ObjectMeta: of}}
			return true
		},
	},
	"Secrets": {
		secretsPage, secretsPages, "more than 25000 Secrets",
		func(ctx context.Context, guard *Guard, tenant client.Reader, seen func()) error {
			return EachSecret(ctx, guard, tenant, corev1.SecretTypeServiceAccountToken, func(*corev1.Secret) { seen() })
		},
		func(list client.ObjectList, asked *client.ListOptions, of metav1.ObjectMeta) bool {
			list.(*corev1.SecretList).Items = []corev1.Secret{{ObjectMeta: of}}
			value, exact := asked.FieldSelector.RequiresExactMatch("type")
			return exact && value == string(corev1.SecretTypeServiceAccountToken)
		},
	},
	"names": {
		ownPage, nodesPages, "more than 10000 pods of a DaemonSet",
		func(ctx context.Context, guard *Guard, tenant client.Reader, seen func()) error {
			kind := &metav1.PartialObjectMetadataList{}
			kind.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
			return EachNamed(ctx, guard, tenant, kind, "pods of a DaemonSet", func(client.Object) { seen() }, client.InNamespace(metav1.NamespaceSystem))
		},
		func(list client.ObjectList, asked *client.ListOptions, of metav1.ObjectMeta) bool {
			pods := list.(*metav1.PartialObjectMetadataList)
			pods.Items = []metav1.PartialObjectMetadata{{ObjectMeta: of}}
			return pods.Kind == "PodList" && asked.Namespace == metav1.NamespaceSystem
		},
	},
}

// expect reads pages of an object in one way. says is what is held against the tenant; empty for nothing.
func (w way) expect(t *testing.T, count int, of metav1.ObjectMeta, says string) {
	t.Helper()
	tenant := &pages{limit: int64(w.limit), count: count, fill: func(list client.ObjectList, asked *client.ListOptions) bool { return w.fill(list, asked, of) }}
	guard, seen := (&Guards{}).Of(blue), 0
	err := w.read(t.Context(), guard, tenant, func() { seen++ })
	if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) || (guard.Problem() == "") != (says == "") {
		t.Errorf("got %v; against the tenant: %q", err, guard.Problem())
	}
	want := min(count, w.most)
	switch {
	case says == invalidName:
		want = 0
	case count == 0:
		want = w.most
	}
	if seen != want || tenant.asked > w.most {
		t.Errorf("%d objects were seen, want %d; %d pages were asked for", seen, want, tenant.asked)
	}
}

func TestFinding3PagesWithoutAnEndAreNotAskedFor(t *testing.T) {
	valid := metav1.ObjectMeta{Namespace: "default", Name: "one"}
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			w.expect(t, 1, valid, "")
			w.expect(t, w.most, valid, "")
			w.expect(t, w.most+1, valid, w.tooMany)
			w.expect(t, 0, valid, w.tooMany)
		})
	}
}

// Messages have names: what is no name could make them long, or lines of their own.
func TestNamesThatNoAPIServerTakesAreRefused(t *testing.T) {
	for _, name := range []string{"pods", "Secrets", "names"} {
		for i, invalid := range []metav1.ObjectMeta{
			{Namespace: "default", Name: strings.Repeat("a", 254)}, {Namespace: "default", Name: strings.Repeat("a", 40<<10)},
			{Namespace: "default", Name: "a\nb"}, {Namespace: "default"}, {Namespace: "a/b", Name: "one"},
		} {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) { ways[name].expect(t, 1, invalid, invalidName) })
		}
	}
	ways["names"].expect(t, 1, metav1.ObjectMeta{Name: "of-a-node"}, "")
	ways["pods"].expect(t, 1, metav1.ObjectMeta{Name: "without-a-namespace"}, invalidName)
}
