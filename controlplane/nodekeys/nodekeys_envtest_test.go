//go:build envtest

package nodekeys

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/envtest/plain"
)

var environment = &envtest.Environment{}

func TestMain(m *testing.M) {
	plain.Main(m, environment, func(*rest.Config) error { return nil })
}

// The test is the DaemonSet's controller and kubelet.
func TestARealTenantTakesTheObjectsOfEachPhaseAndTellsWhichNodesAreBehind(t *testing.T) {
	ctx := t.Context()
	api, err := tenant.NewClient(environment.Config)
	must(t, err)
	must(t, api.Create(ctx, node("w1")))
	against := guard()
	behind := func(w Wanted, want ...string) {
		t.Helper()
		lags, err := Behind(ctx, against, api, w)
		if got := texts(lags); err != nil || !slices.Equal(got, want) {
			t.Errorf("behind are %q, %v, want %q", got, err, want)
		}
	}
	behind(trusting(), "w1 (DaemonSet kok-node-keys is not there)")
	must(t, bindAnywhere(ctx, api))
	for i, w := range []Wanted{trusting(), using()} {
		for _, writes := range []bool{true, false} {
			wrote, err := tenant.Apply(ctx, api, Objects(w))
			if err != nil || wrote != writes {
				t.Fatalf("apply wrote %t, %v, want %t", wrote, err, writes)
			}
		}
		set := &appsv1.DaemonSet{}
		must(t, api.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, set))
		made := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		made.Namespace, made.Name, made.Spec.NodeName = metav1.NamespaceSystem, fmt.Sprintf("pod-%d", i), "w1"
		made.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
		must(t, api.Create(ctx, made))
		behind(w, "w1 (pod "+made.Name+": it is not ready yet)")
		made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		must(t, api.Status().Update(ctx, made))
		behind(w)
		behind(Wanted{Trusted: []byte("another phase")}, "w1 (its pod "+made.Name+" is of another phase, and is being replaced)")
		must(t, api.Delete(ctx, made, client.GracePeriodSeconds(0)))
	}
	if problem := against.Problem(); problem != "" {
		t.Errorf("against the tenant: %s", problem)
	}
	must(t, Remove(ctx, api))
	left := &corev1.ConfigMapList{}
	must(t, api.List(ctx, left, client.InNamespace(metav1.NamespaceSystem), client.HasLabels{"kok.cluster.x-k8s.io/addon"}))
	if len(left.Items) > 0 {
		t.Errorf("these are left: %v", left.Items)
	}
	behind(trusting(), "w1 (DaemonSet kok-node-keys is not there)")
}

// bindAnywhere binds a pod with the DaemonSet's label to a node of a name that no Node can have, which API servers take.
func bindAnywhere(ctx context.Context, api client.Client) error {
	anywhere := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "anywhere", Labels: map[string]string{"k8s-app": "kok-node-keys"}}}
	anywhere.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}}
	if err := api.Create(ctx, anywhere); err != nil {
		return err
	}
	return api.SubResource("binding").Create(ctx, anywhere, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "No_Node " + strings.Repeat("a", 300)}})
}
