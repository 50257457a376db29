package tenantapi

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectPages is a tenant that answers with so many pages of one object; none for pages without an end.
type objectPages struct {
	client.Reader
	namespace, name string
	count, asked    int
}

func (p *objectPages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	p.asked++
	// Metadata alone is asked for: an object may hold secrets.
	objects, metadata := list.(*metav1.PartialObjectMetadataList)
	if !metadata || asked.Limit != objectsPage || (asked.Continue == "") != (p.asked == 1) {
		return context.Canceled
	}
	objects.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}}}
	if p.asked != p.count {
		objects.Continue = "more"
	}
	return nil
}

func TestPagesOfObjectsWithoutAnEndAreNotAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		pages           int
		namespace, name string
		says            string
	}{
		"one page":                 {1, "default", "a", ""},
		"of no namespace":          {2, "", "system:node-proxier", ""},
		"as many as there may be":  {objectsPages, "default", "a", ""},
		"one more":                 {objectsPages + 1, "default", "a", "more than 2000000 objects Secret"},
		"no end":                   {0, "default", "a", "more than 2000000 objects Secret"},
		"a name that is too long":  {1, "default", strings.Repeat("a", 254), "a name that no API server takes"},
		"a name with a new line":   {1, "default", "a\nb", "a name that no API server takes"},
		"a name of another path":   {1, "default", "..", "a name that no API server takes"},
		"a namespace with a slash": {1, "a/b", "c", "a name that no API server takes"},
		"an object without a name": {1, "default", "", "a name that no API server takes"},
	} {
		t.Run(name, func(t *testing.T) {
			guard, tenant, seen := (&Guards{}).Of(blue), &objectPages{count: test.pages, namespace: test.namespace, name: test.name}, 0
			err := EachObject(t.Context(), guard, tenant, corev1.SchemeGroupVersion.WithKind("Secret"), func(*metav1.PartialObjectMetadata) error { seen++; return nil })
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			if tenant.asked > objectsPages || (guard.Problem() == "") != (test.says == "") {
				t.Errorf("%d pages were asked for; against the tenant: %q", tenant.asked, guard.Problem())
			}
			if test.says == "" && seen != tenant.asked {
				t.Errorf("%d objects were seen, want %d", seen, tenant.asked)
			}
		})
	}
	guard, tenant, enough := (&Guards{}).Of(blue), &objectPages{count: 3, name: "a"}, errors.New("enough")
	if err := EachObject(t.Context(), guard, tenant, corev1.SchemeGroupVersion.WithKind("Secret"), func(*metav1.PartialObjectMetadata) error { return enough }); !errors.Is(err, enough) || tenant.asked != 1 {
		t.Errorf("after %d pages it says %v", tenant.asked, err)
	}
}
