package snapshot

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

var blue = client.ObjectKey{Namespace: "team", Name: "blue"}

func of(tenant client.ObjectKey, name string) metav1.ObjectMeta {
	labels := names.ComponentLabels(tenant, names.EtcdData)
	labels[revision.ComponentLabel] = names.EtcdData
	return metav1.ObjectMeta{Namespace: tenant.Namespace, Name: name, Labels: labels}
}

func TestASnapshotHasWhatIsTheTenants(t *testing.T) {
	green := client.ObjectKey{Namespace: "team", Name: "green"}
	host := fake.NewClientBuilder().WithObjects(
		&corev1.Pod{ObjectMeta: of(blue, "b")}, &corev1.Pod{ObjectMeta: of(blue, "a")}, &corev1.Pod{ObjectMeta: of(green, "c")},
		&appsv1.ControllerRevision{ObjectMeta: of(blue, "second"), Revision: 2}, &appsv1.ControllerRevision{ObjectMeta: of(blue, "first"), Revision: 1},
		&appsv1.ControllerRevision{ObjectMeta: of(green, "other"), Revision: 3},
	).Build()
	taken, err := Take(t.Context(), host, blue)
	if err != nil {
		t.Fatal(err)
	}
	if pods := taken.Pods[names.EtcdData]; len(pods) != 2 || pods[0].Name != "a" || pods[1].Name != "b" {
		t.Errorf("pods: %v", pods)
	}
	if revisions := taken.Revisions[names.EtcdData]; len(revisions) != 2 || revisions[0].Name != "first" || revisions[1].Name != "second" {
		t.Errorf("revisions: %v", revisions)
	}
}

func TestWithoutPodsOrRevisionsThereIsNoSnapshot(t *testing.T) {
	errAway := errors.New("connection refused")
	for what, fails := range map[string]func(client.ObjectList) bool{
		"pods":      func(list client.ObjectList) bool { _, is := list.(*corev1.PodList); return is },
		"revisions": func(list client.ObjectList) bool { _, is := list.(*appsv1.ControllerRevisionList); return is },
	} {
		host := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if fails(list) {
					return errAway
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
		if taken, err := Take(t.Context(), host, blue); taken != nil || !errors.Is(err, errAway) || !strings.Contains(err.Error(), what) {
			t.Errorf("without %s there is %v, %v", what, taken, err)
		}
	}
}
