package tenantprobes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestKubeletsAreReadPageByPage(t *testing.T) {
	pages := map[string]struct{ node, next string }{"": {"n0", "second"}, "second": {"n1", "third"}, "third": {"n2", ""}}
	var asked []string
	check := &kubeletsProbe{to: "v1.38.0", api: &API{}}
	check.api.client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			applied := (&client.ListOptions{}).ApplyOptions(options)
			asked = append(asked, fmt.Sprintf("%d from %q", applied.Limit, applied.Continue))
			page := pages[applied.Continue]
			nodes := list.(*corev1.NodeList)
			nodes.Continue = page.next
			nodes.Items = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: page.node}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.34.2"}}}}
			return nil
		},
	})
	answer := check.do(t.Context())
	if !strings.HasPrefix(answer.Problem, "the kubelet of Node n0 is v1.34.2, and 2 more are too old: ") {
		t.Errorf("the answer is %q", answer.Problem)
	}
	if got := strings.Join(asked, ", "); got != `100 from "", 100 from "second", 100 from "third"` {
		t.Errorf("it asked for %s", got)
	}
}
