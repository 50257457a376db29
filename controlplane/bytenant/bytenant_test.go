package bytenant

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

var blue, green = client.ObjectKey{Namespace: "team", Name: "blue"}, client.ObjectKey{Namespace: "team", Name: "green"}

// kinds collects what AddIndex indexes.
type kinds struct{ builder *fake.ClientBuilder }

// IndexField gives the fake client the index.
func (k *kinds) IndexField(_ context.Context, object client.Object, field string, of client.IndexerFunc) error {
	k.builder.WithIndex(object, field, of)
	return nil
}

func TestTheObjectsOfOneTenantAreListedByTheIndex(t *testing.T) {
	builder := fake.NewClientBuilder()
	if err := AddIndex(t.Context(), &kinds{builder}); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []client.ObjectKey{blue, green} {
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: "team", Name: tenant.Name + name, Labels: names.ComponentLabels(tenant, names.EtcdData)}
		}
		builder.WithObjects(&corev1.Pod{ObjectMeta: meta("-0")}, &corev1.Pod{ObjectMeta: meta("-1")}, &corev1.Service{ObjectMeta: meta("")},
			&corev1.ConfigMap{ObjectMeta: meta("")}, &appsv1.ControllerRevision{ObjectMeta: meta("")}, &corev1.Secret{ObjectMeta: meta("")})
	}
	builder.WithObjects(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "another"}})
	var last client.ListOptions
	c := Client(builder.WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			last = *(&client.ListOptions{}).ApplyOptions(options)
			return c.List(ctx, list, options...)
		},
	}).Build())
	for name, test := range map[string]struct {
		list    client.ObjectList
		options []client.ListOption
		found   int
		indexed bool
	}{
		"pods of a tenant":                     {&corev1.PodList{}, []client.ListOption{client.MatchingLabels(names.Labels(blue))}, 2, true},
		"pods of a component":                  {&corev1.PodList{}, []client.ListOption{client.MatchingLabels(names.ComponentLabels(blue, names.EtcdData))}, 2, true},
		"pods of a component without any":      {&corev1.PodList{}, []client.ListOption{client.MatchingLabels(names.ComponentLabels(blue, names.KubeScheduler))}, 0, true},
		"pods with another label":              {&corev1.PodList{}, []client.ListOption{client.MatchingLabels(names.Labels(blue)), client.HasLabels{"a"}}, 0, true},
		"Services of a tenant":                 {&corev1.ServiceList{}, []client.ListOption{client.MatchingLabels(names.Labels(green))}, 1, true},
		"ConfigMaps of a tenant":               {&corev1.ConfigMapList{}, []client.ListOption{client.MatchingLabels(names.Labels(green))}, 1, true},
		"revisions of a tenant":                {&appsv1.ControllerRevisionList{}, []client.ListOption{client.MatchingLabels(names.Labels(green))}, 1, true},
		"a kind without the index":             {&corev1.SecretList{}, []client.ListOption{client.MatchingLabels(names.Labels(blue))}, 1, false},
		"pods of all tenants":                  {&corev1.PodList{}, []client.ListOption{client.MatchingLabels{names.ManagedByLabel: names.ManagedBy}}, 4, false},
		"pods of one name in all namespaces":   {&corev1.PodList{}, []client.ListOption{client.MatchingLabels{names.ManagedByLabel: names.ManagedBy, names.ClusterNameLabel: "blue"}}, 2, false},
		"pods of a tenant that others look to": {&corev1.PodList{}, []client.ListOption{client.MatchingLabels{names.ManagedByLabel: "helm", names.ClusterNamespaceLabel: "team", names.ClusterNameLabel: "blue"}}, 0, false},
		"all pods":                             {&corev1.PodList{}, nil, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.List(t.Context(), test.list, append(test.options, client.InNamespace("team"))...); err != nil {
				t.Fatal(err)
			}
			if got := length(test.list); got != test.found {
				t.Errorf("%d are found, want %d", got, test.found)
			}
			if indexed := last.FieldSelector != nil; indexed != test.indexed {
				t.Errorf("listed by the index: %t", indexed)
			}
		})
	}
}

func length(list client.ObjectList) int {
	switch is := list.(type) {
	case *corev1.PodList:
		return len(is.Items)
	case *corev1.ServiceList:
		return len(is.Items)
	case *corev1.ConfigMapList:
		return len(is.Items)
	case *appsv1.ControllerRevisionList:
		return len(is.Items)
	case *corev1.SecretList:
		return len(is.Items)
	}
	return -1
}
