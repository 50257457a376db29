package deletion

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// The garbage collector would give pods the grace period of their template.
func TestPodsAreDeletedByUsAndNotWithTheirWorkloads(t *testing.T) {
	blue := client.ObjectKey{Namespace: "tenants", Name: "blue"}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: blue.Namespace, Name: name, Labels: names.Labels(blue)}
	}
	pod := &corev1.Pod{ObjectMeta: named("pod")}
	pod.DeletionGracePeriodSeconds, pod.DeletionTimestamp, pod.Finalizers = ptr.To[int64](80), ptr.To(metav1.Now()), []string{"example.com/kept"}
	deleted := map[string]string{}
	host := fake.NewClientBuilder().WithObjects(
		&appsv1.DaemonSet{ObjectMeta: named("daemons")}, &appsv1.StatefulSet{ObjectMeta: named("members")},
		&appsv1.Deployment{ObjectMeta: named("replicas")}, &appsv1.ReplicaSet{ObjectMeta: named("replicas-5f7c")}, pod,
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: "others"}},
	).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			applied := (&client.DeleteOptions{}).ApplyOptions(options)
			how := string(ptr.Deref(applied.PropagationPolicy, ""))
			if applied.GracePeriodSeconds != nil {
				how = fmt.Sprintf("%ds", *applied.GracePeriodSeconds)
			}
			deleted[object.GetName()] = how
			return nil
		},
	}).Build()
	if _, err := deleteKinds(t.Context(), &hostclusters.Host{Client: host, Live: host}, blue, runningKinds, nil, everyObject); err != nil {
		t.Fatal(err)
	}
	orphan := string(metav1.DeletePropagationOrphan)
	want := map[string]string{"daemons": orphan, "members": orphan, "replicas": orphan, "replicas-5f7c": orphan, "pod": "1s"}
	if diff := cmp.Diff(want, deleted); diff != "" {
		t.Errorf("deleted, and how (-want +got):\n%s", diff)
	}
}
