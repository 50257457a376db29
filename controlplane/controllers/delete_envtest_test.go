//go:build envtest

package controllers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

func (tt *tenantTest) delete(objects ...client.Object) {
	tt.t.Helper()
	for _, object := range objects {
		if err := environment.Client.Delete(tt.t.Context(), object); client.IgnoreNotFound(err) != nil {
			tt.t.Fatal(err)
		}
	}
}

// gone reconciles, through faults, until the control plane is gone, and fails if anything of the tenant is left,
// or goes before what uses it.
func (tt *tenantTest) gone() {
	tt.t.Helper()
	before := tt.objects()
	for range manyRounds {
		if err := tt.reconcile(); err != nil && !errors.Is(err, errNotSent) && !errors.Is(err, errReplyLost) {
			tt.t.Logf("reconcile: %v", err)
		}
		tt.goesInOrder(before)
		tt.startAfterDeath()
		if _, err := tt.host.work(tt.t.Context()); err != nil {
			tt.t.Fatal(err)
		}
		err := environment.Client.Get(tt.t.Context(), tt.key, &controlplanev1.KOKControlPlane{})
		if apierrors.IsNotFound(err) {
			if left := kindsAndNames(tt.objects()); len(left) > 0 {
				tt.t.Errorf("the control plane is gone and there are %v", left)
			}
			return
		}
	}
	tt.t.Fatalf("it is not deleted: %+v, left are %v", tt.controlPlane().Status.Conditions, kindsAndNames(tt.objects()))
}

func TestDeletionLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// before is what happens to the tenant, which is settled, or just created if young is true.
		before func(tt *tenantTest)
		young  bool
	}{
		"the control plane is deleted": {before: func(tt *tenantTest) { tt.delete(tt.controlPlane()) }},
		"the Cluster is gone first": {before: func(tt *tenantTest) {
			tt.delete(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: tt.cluster.Namespace, Name: tt.cluster.Name}}, tt.controlPlane())
		}},
		"the Cluster is gone and nothing but a label names it": {before: func(tt *tenantTest) {
			edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.OwnerReferences = nil })
			tt.delete(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: tt.cluster.Namespace, Name: tt.cluster.Name}}, tt.controlPlane())
		}},
		"the claim of ports is gone": {before: func(tt *tenantTest) {
			for _, object := range tt.objects() {
				if object.GetNamespace() == managerNamespace {
					tt.delete(object)
				}
			}
			tt.delete(tt.controlPlane())
		}},
		"all Secrets are gone": {before: func(tt *tenantTest) {
			for _, object := range tt.objects() {
				if _, ok := object.(*corev1.Secret); ok {
					tt.delete(object)
				}
			}
			tt.delete(tt.controlPlane())
		}},
		"all but the claims of volumes is gone": {before: func(tt *tenantTest) {
			tt.delete(tt.controlPlane())
			for _, object := range tt.objects() {
				if _, ok := object.(*corev1.PersistentVolumeClaim); !ok {
					tt.delete(object)
				}
			}
		}},
		"workloads lost their labels": {before: func(tt *tenantTest) {
			controlPlane := tt.controlPlane()
			tt.delete(controlPlane)
			for component, workload := range workloads.Kinds(controlPlane) {
				edit(tt.t, tt.inNamespace(names.Object(tt.cluster.Name, component)), workload, func(o client.Object) { o.SetLabels(nil) })
			}
		}},
		"workloads lost their labels and annotations": {before: func(tt *tenantTest) {
			controlPlane := tt.controlPlane()
			tt.delete(controlPlane)
			for component, workload := range workloads.Kinds(controlPlane) {
				edit(tt.t, tt.inNamespace(names.Object(tt.cluster.Name, component)), workload, func(o client.Object) {
					o.SetLabels(nil)
					o.SetAnnotations(nil)
				})
			}
		}},
		"Deployments have ReplicaSets": {before: func(tt *tenantTest) {
			deployments := &appsv1.DeploymentList{}
			if err := environment.Client.List(tt.t.Context(), deployments, client.InNamespace(tt.key.Namespace)); err != nil {
				tt.t.Fatal(err)
			}
			if len(deployments.Items) != 2 {
				tt.t.Fatalf("there are %d Deployments", len(deployments.Items))
			}
			for _, d := range deployments.Items {
				set := &appsv1.ReplicaSet{
					ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-5f7c", Labels: d.Spec.Template.Labels},
					Spec:       appsv1.ReplicaSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template},
				}
				if err := environment.Client.Create(tt.t.Context(), set); err != nil {
					tt.t.Fatal(err)
				}
			}
			tt.delete(tt.controlPlane())
		}},
		"nothing was made yet": {young: true, before: func(tt *tenantTest) { tt.delete(tt.controlPlane()) }},
		"only the ports were claimed": {young: true, before: func(tt *tenantTest) {
			tt.program.gate.refuse = func(write int) bool { return write > 8 }
			for range 4 {
				_ = tt.reconcile()
			}
			tt.program = newProgram(tt.t, &gate{})
			tt.delete(tt.controlPlane())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt := newTenantTest(t, small)
			if !test.young {
				tt.settle()
				if len(tt.objects()) < 35 {
					t.Fatalf("there are only %v", kindsAndNames(tt.objects()))
				}
			}
			test.before(tt)
			tt.gone()
		})
	}
}

// What pods still mount or write to goes only when no pod is left.
func TestDeletionGoesFromPodsToData(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, whole)
	tt.settle()
	tt.delete(tt.controlPlane())
	for range 5 {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	left := kindsAndNames(tt.objects())
	for _, kept := range []string{"Secret blue-key-material", "Secret blue-ca", "ConfigMap blue-etcd-data-config", "Service blue-etcd-data-0", "PersistentVolumeClaim kok-data-blue-etcd-data-0"} {
		if !slices.Contains(left, kept) {
			t.Errorf("pods are there and %s is gone", kept)
		}
	}
	pods := 0
	for _, object := range tt.objects() {
		if pod, ok := object.(*corev1.Pod); ok {
			pods++
			if pod.DeletionTimestamp == nil || ptr.Deref(pod.DeletionGracePeriodSeconds, 30) > 1 {
				t.Errorf("%s is given %v s", pod.Name, pod.DeletionGracePeriodSeconds)
			}
		}
	}
	if pods == 0 {
		t.Error("no pod is there to wait for")
	}
	deleting := conditions.Get(tt.controlPlane(), conditionsv1.DeletingCondition)
	if deleting == nil || deleting.Status != metav1.ConditionTrue || !strings.Contains(deleting.Message, "Pod blue-etcd-data-0") {
		t.Errorf("it says %v", deleting)
	}
	if claims := tt.claims(); claims != 1 {
		t.Errorf("pods are there and %d blocks of ports are claimed", claims)
	}
	tt.gone()
}

func (tt *tenantTest) claims() int {
	count := 0
	for _, object := range tt.objects() {
		if object.GetNamespace() == managerNamespace {
			count++
		}
	}
	return count
}

func TestDeletionLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	blue := newTenantTest(t, single)
	cluster, controlPlane := newTenant(t, blue.key.Namespace, "blue-etcd", single)
	other := &tenantTest{t: t, key: client.ObjectKeyFromObject(controlPlane), cluster: client.ObjectKeyFromObject(cluster), host: blue.host, program: blue.program}
	blue.settle()
	other.settle()
	kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: blue.key.Namespace, Name: "blue-own", Labels: map[string]string{clusterv1.ClusterNameLabel: "blue"}}}
	if err := environment.Client.Create(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	uids := map[string]string{}
	for _, object := range blue.objects() {
		if object.GetLabels()[names.ClusterNameLabel] == "blue-etcd" {
			uids[object.GetObjectKind().GroupVersionKind().Kind+object.GetName()] = string(object.GetUID())
		}
	}
	if len(uids) < 20 {
		t.Fatalf("the other tenant has %d objects", len(uids))
	}

	blue.delete(blue.controlPlane())
	for range manyRounds {
		if err := blue.reconcile(); err != nil {
			t.Fatal(err)
		}
		if _, err := blue.host.work(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := environment.Client.Get(t.Context(), blue.key, &controlplanev1.KOKControlPlane{}); !apierrors.IsNotFound(err) {
		t.Fatalf("it is not deleted: %v", err)
	}
	for _, object := range blue.objects() {
		delete(uids, object.GetObjectKind().GroupVersionKind().Kind+object.GetName())
		if object.GetLabels()[names.ClusterNameLabel] == "blue" && object.GetName() != kept.Name {
			t.Errorf("%s is left", object.GetName())
		}
	}
	if len(uids) > 0 {
		t.Errorf("of the other tenant are gone: %v", uids)
	}
	if err := environment.Client.Get(t.Context(), client.ObjectKeyFromObject(kept), kept); err != nil {
		t.Errorf("a Secret that the controller did not make: %v", err)
	}
}

// A control plane that is refused makes nothing, so that what has its names is somebody else's.
func TestTheDeletionOfARefusedControlPlaneLeavesWorkloadsOfItsNamesAlone(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.storeRefused(patchOf(names.KubeScheduler, "Deployment", "spec: {replicas: 5}"))
	theirs := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "blue-kube-scheduler"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "theirs"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "theirs"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "registry.example/theirs"}}},
			},
		},
	}
	if err := environment.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	reconcile := func() {
		for range 5 {
			if err := tt.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
	}
	reconcile()
	if reason := conditions.GetReason(tt.controlPlane(), conditionsv1.AvailableCondition); reason != conditionsv1.InvalidSpecReason {
		t.Fatalf("it is %s", reason)
	}
	tt.delete(tt.controlPlane())
	reconcile()
	if err := environment.Client.Get(t.Context(), tt.key, &controlplanev1.KOKControlPlane{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is not deleted: %v", err)
	}
	if err := environment.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil || theirs.DeletionTimestamp != nil {
		t.Errorf("somebody's Deployment: deleted at %v, %v", theirs.DeletionTimestamp, err)
	}
}

func TestNothingComesBackWhileItIsDeleted(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.settle()
	tt.delete(tt.controlPlane())
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
		for _, object := range tt.objects() {
			switch object.(type) {
			case *appsv1.StatefulSet, *appsv1.DaemonSet, *appsv1.Deployment:
				if object.GetDeletionTimestamp() == nil {
					t.Errorf("%s came back", object.GetName())
				}
			}
		}
	}
	tt.gone()
}
