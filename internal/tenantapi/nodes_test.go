package tenantapi

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// pages is a tenant that answers with so many pages of one Node; none for pages without an end.
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

func nodePages(count int) *pages {
	return &pages{limit: nodesPage, count: count, fill: func(list client.ObjectList, _ *client.ListOptions) bool {
		nodes, _ := list.(*corev1.NodeList)
		nodes.Items = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}}
		return true
	}}
}

func TestFinding3PagesWithoutAnEndAreNotAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		pages int
		says  string
	}{
		"one page":                {1, ""},
		"as many as there may be": {nodesPages, ""},
		"one more":                {nodesPages + 1, "more than 10000 Nodes"},
		"no end":                  {0, "more than 10000 Nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			guard, tenant, seen := (&Guards{}).Of(blue), nodePages(test.pages), 0
			err := EachNode(t.Context(), guard, tenant, func(*corev1.Node) { seen++ })
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			if tenant.asked > nodesPages || seen != tenant.asked || (guard.Problem() == "") != (test.says == "") {
				t.Errorf("%d pages were asked for and %d Nodes seen; against the tenant: %q", tenant.asked, seen, guard.Problem())
			}
		})
	}
}

func TestFinding3ANodeWithALongFieldIsNotKept(t *testing.T) {
	guard := (&Guards{}).Of(blue)
	tenant := fake.NewClientBuilder().WithObjects(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Spec: corev1.NodeSpec{ProviderID: strings.Repeat("a", maxField+1)},
	}).Build()
	err := EachNode(t.Context(), guard, tenant, func(*corev1.Node) { t.Error("it is handed over") })
	if err == nil || guard.Problem() == "" {
		t.Errorf("got %v", err)
	}
}
