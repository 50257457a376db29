//go:build envtest

package controllers

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// deletedSet is a settled tenant whose StatefulSet of events was deleted with its pods, which still stop.
func deletedSet(t *testing.T) (tt *tenantTest, pods []*corev1.Pod) {
	t.Helper()
	tt = newTenantTest(t, whole)
	tt.settle()
	set, pods := ownPods(t, tt)
	if err := environment.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	return tt, pods
}

// ownPods makes the StatefulSet of events the owner of its pods, as its controller does.
func ownPods(t *testing.T, tt *tenantTest) (set *appsv1.StatefulSet, pods []*corev1.Pod) {
	t.Helper()
	set = &appsv1.StatefulSet{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-etcd-events"), set); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"blue-etcd-events-0", "blue-etcd-events-1", "blue-etcd-events-2"} {
		pod := &corev1.Pod{}
		edit(t, tt.inNamespace(name), pod, func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		})
		pods = append(pods, pod)
	}
	return set, pods
}

// madeAgain reports whether the StatefulSet is there after a reconcile.
func (tt *tenantTest) madeAgain() bool {
	tt.t.Helper()
	if err := tt.reconcile(); err != nil {
		tt.t.Fatal(err)
	}
	err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-etcd-events"), &appsv1.StatefulSet{})
	if client.IgnoreNotFound(err) != nil {
		tt.t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

func TestAStatefulSetIsMadeAgainWhenTheNamesOfItsPodsAreFree(t *testing.T) {
	t.Parallel()
	tt, pods := deletedSet(t)
	for i, pod := range pods {
		if tt.madeAgain() {
			t.Fatalf("with %d former pods it is made again", len(pods)-i)
		}
		if message := conditions.GetMessage(tt.controlPlane(), conditionsv1.ReconciledCondition); !strings.Contains(message, pod.Name) {
			t.Errorf("condition Reconciled says %q, and not that it waits for %s", message, pod.Name)
		}
		if err := environment.Client.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if tt.madeAgain() {
			t.Fatalf("it is made again while %s stops", pod.Name)
		}
		if err := environment.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	if !tt.madeAgain() {
		t.Error("without former pods it is not made again")
	}
}

// The manager's cache holds what has the labels of a tenant, and nothing else.
func TestAStatefulSetThatLostItsLabelsGetsThemBack(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, whole)
	tt.settle()
	ownPods(t, tt)
	key := tt.inNamespace("blue-etcd-events")
	edit(t, key, &appsv1.StatefulSet{}, func(set *appsv1.StatefulSet) { set.Labels = nil })
	host := *tt.program.Host
	host.Client = intercept(host.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, asked client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := c.Get(ctx, asked, object, options...); err != nil || asked != key || object.GetLabels()[names.ManagedByLabel] != "" {
				return err
			}
			return apierrors.NewNotFound(schema.GroupResource{}, asked.Name)
		},
	})
	tt.program.Host = &host
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	set := &appsv1.StatefulSet{}
	if err := environment.Client.Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	if set.Labels[names.ManagedByLabel] != names.ManagedBy {
		t.Errorf("its labels are %v", set.Labels)
	}
}

func TestAPodOnAHostThatIsAwayIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	tt, pods := deletedSet(t)
	for _, pod := range pods {
		if err := environment.Client.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if tt.madeAgain() {
		t.Fatal("it is made again while its former pods stop")
	}
	tt.program.Clock = clocktesting.NewFakeClock(time.Now().Add(5 * time.Minute))
	if !tt.madeAgain() {
		t.Error("it waits for pods that do not stop")
	}
}
