package tenantapi

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPagesOfPodsWithoutAnEndAreNotAskedFor(t *testing.T) {
	long := strings.Repeat("a", 254)
	for name, test := range map[string]struct {
		pages            int
		pod, kind, owner string
		says             string
	}{
		"one page":                {1, "pod", "", "", ""},
		"a pod with an owner":     {1, "pod", "ReplicaSet", "web-0123456789", ""},
		"as many as there may be": {podsPages, "pod", "", "", ""},
		"one more":                {podsPages + 1, "pod", "", "", "more than 150000 pods"},
		"no end":                  {0, "pod", "", "", "more than 150000 pods"},
		"a name that is too long": {1, long, "", "", "a name that no API server takes"},
		"a name with a new line":  {1, "a\nb", "", "", "a name that no API server takes"},
		// API servers take owners of any kind and name.
		"an owner with a long name":               {1, "pod", "ReplicaSet", long, ""},
		"an owner whose name is no DNS subdomain": {1, "pod", "ClusterRole", "system:node", ""},
		"an owner whose kind is no DNS label":     {1, "pod", "A_b", "web", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &pages{limit: podsPage, count: test.pages, fill: func(list client.ObjectList, _ *client.ListOptions) bool {
				pods, _ := list.(*corev1.PodList)
				pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: test.pod}}
				if test.kind != "" {
					pod.OwnerReferences = []metav1.OwnerReference{{Kind: test.kind, Name: test.owner, Controller: ptr.To(true)}}
				}
				pods.Items = []corev1.Pod{pod}
				return true
			}}
			guard, seen := (&Guards{}).Of(blue), 0
			err := EachPod(t.Context(), guard, tenant, func(*corev1.Pod) { seen++ })
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			if tenant.asked > podsPages || (guard.Problem() == "") != (test.says == "") {
				t.Errorf("%d pages were asked for; against the tenant: %q", tenant.asked, guard.Problem())
			}
			if test.says == "" && seen != tenant.asked {
				t.Errorf("%d pods were seen, want %d", seen, tenant.asked)
			}
		})
	}
}
