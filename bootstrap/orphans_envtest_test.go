//go:build envtest

package main

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// node is a Node of the tenant, on a host of the cluster's data centre, whose readiness is as given for an hour.
func (w *worker) node(name string, ready corev1.ConditionStatus) *corev1.Node {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Spec.ProviderID = "idc://" + w.key.Namespace + "/host-1/" + name
	w.create(node)
	w.t.Cleanup(func() { _ = environment.Client.Delete(context.Background(), node) })
	hourAgo := metav1.NewTime(time.Now().Add(-time.Hour))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: hourAgo, LastHeartbeatTime: hourAgo}}
	if err := environment.Client.Status().Update(w.t.Context(), node); err != nil {
		w.t.Fatal(err)
	}
	return node
}

func TestANodeThatCameBackWithoutItsMachineIsDeleted(t *testing.T) {
	w := newWorker(t, func(*bootstrapv1.KOKConfig) {})
	w.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "IDCCluster", Name: "blue"}
	if err := environment.Client.Update(t.Context(), w.cluster); err != nil {
		t.Fatal(err)
	}
	orphan, well := w.node("orphan-"+w.key.Namespace, corev1.ConditionUnknown), w.node("well-"+w.key.Namespace, corev1.ConditionTrue)
	joining := w.node(w.key.Name, corev1.ConditionUnknown)
	w.clusterIsUp()
	is := func(node *corev1.Node) error {
		return environment.Client.Get(t.Context(), client.ObjectKeyFromObject(node), &corev1.Node{})
	}
	w.eventually("the orphan is gone", func() bool { return apierrors.IsNotFound(is(orphan)) })
	for _, node := range []*corev1.Node{well, joining} {
		if err := is(node); err != nil {
			t.Errorf("Node %s: %v", node.Name, err)
		}
	}
}
