package tenantapi

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPagesOfAKindWithoutAnEndAreNotAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		pages        int
		object       string
		namespace    string
		says         string
		doesNotStart bool
	}{
		"one page":                     {1, "w1", "", "", false},
		"a namespace":                  {1, "w1", "kube-system", "", false},
		"as many as there may be":      {nodesPages, "w1", "", "", false},
		"one more":                     {nodesPages + 1, "w1", "", "it lists more than 10000 Nodes", false},
		"no end":                       {0, "w1", "", "it lists more than 10000 Nodes", false},
		"a name of 40 KiB":             {1, strings.Repeat("a", 40<<10), "", "a name that no API server takes", true},
		"a name that is a little long": {1, strings.Repeat("a", 254), "", "a name that no API server takes", true},
		"a name with a new line":       {1, "a\nb", "", "a name that no API server takes", true},
		"a namespace with a slash":     {1, "w1", "a/b", "a name that no API server takes", true},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &pages{limit: ownPage, count: test.pages, fill: func(list client.ObjectList, asked *client.ListOptions) bool {
				nodes, _ := list.(*metav1.PartialObjectMetadataList)
				nodes.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: test.object, Namespace: test.namespace}}}
				return nodes.Kind == "NodeList" && asked.Namespace == metav1.NamespaceSystem
			}}
			kind := &metav1.PartialObjectMetadataList{}
			kind.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
			guard, seen := (&Guards{}).Of(blue), 0
			err := EachNamed(t.Context(), guard, tenant, kind, "Nodes", func(client.Object) { seen++ }, client.InNamespace(metav1.NamespaceSystem))
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			if tenant.asked > nodesPages || (guard.Problem() == "") != (test.says == "") {
				t.Errorf("%d pages were asked for; against the tenant: %q", tenant.asked, guard.Problem())
			}
			if want := map[bool]int{false: tenant.asked}[test.doesNotStart]; seen != want {
				t.Errorf("%d Nodes were seen, want %d", seen, want)
			}
		})
	}
}
