//go:build envtest

package controllers

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestAPausedControlPlaneIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(tt *tenantTest, paused bool){
		"by an annotation of its own": func(tt *tenantTest, paused bool) {
			edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
				delete(c.Annotations, clusterv1.PausedAnnotation)
				if paused {
					c.Annotations[clusterv1.PausedAnnotation] = ""
				}
			})
		},
		"by its Cluster": func(tt *tenantTest, paused bool) {
			edit(tt.t, tt.cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(paused) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt := newTenantTest(t, single)
			tt.settle()
			pause(tt, true)
			if err := tt.reconcile(); err != nil {
				t.Fatal(err)
			}
			if !conditions.IsTrue(tt.controlPlane(), clusterv1.PausedCondition) {
				t.Error("it does not say that it is paused")
			}

			scheduler := tt.inNamespace("blue-kube-scheduler")
			edit(t, scheduler, &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](5) })
			edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.KubeControllerManager.Replicas = ptr.To[int32](3) })
			tt.program.gate.take()
			for round := range 3 {
				if err := tt.reconcile(); err != nil {
					t.Fatal(err)
				}
				for _, write := range tt.program.gate.takeWrites() {
					// Once: that it is paused is said of the new generation, too.
					if round > 0 || !strings.HasSuffix(write.path, "/blue-control-plane/status") {
						t.Errorf("while it is paused there is a write: %s", write)
					}
				}
			}

			pause(tt, false)
			tt.settle()
			if conditions.IsTrue(tt.controlPlane(), clusterv1.PausedCondition) {
				t.Error("it says that it is paused")
			}
			for name, want := range map[string]int32{"blue-kube-scheduler": 1, "blue-kube-controller-manager": 3} {
				d := &appsv1.Deployment{}
				if err := environment.Client.Get(t.Context(), tt.inNamespace(name), d); err != nil || *d.Spec.Replicas != want {
					t.Errorf("%s has %d replicas, %v", name, *d.Spec.Replicas, err)
				}
			}
		})
	}
}

// clusterctl move deletes paused objects at the source: what runs must stay.
func TestAPausedControlPlaneIsNotDeleted(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.settle()
	edit(t, tt.cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	before := kindsAndNames(tt.objects())
	tt.delete(tt.controlPlane())
	for range 3 {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if after := kindsAndNames(tt.objects()); len(after) != len(before) {
		t.Errorf("there were %d objects and are %d", len(before), len(after))
	}
	edit(t, tt.cluster, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(false) })
	tt.gone()
}

func TestAControlPlaneWithoutAClusterWaits(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.delete(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: tt.cluster.Namespace, Name: tt.cluster.Name}})
	for range 3 {
		if err := tt.reconcile(); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	if made := tt.objects(); len(made) > 0 {
		t.Errorf("without a Cluster there are %v", kindsAndNames(made))
	}
}
