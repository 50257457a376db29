//go:build envtest

package controllers

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

func eventsInData(c *controlplanev1.KOKControlPlane) {
	lasting(c)
	c.Spec.Etcd.Events.Mode = controlplanev1.EtcdEventsInData
}

func TestATenantWithItsEventsInTheDataHasOneEtcd(t *testing.T) {
	tt := newTenantTest(t, eventsInData)
	tt.settle()
	controlPlane := tt.controlPlane()
	if !conditions.IsTrue(controlPlane, conditionsv1.AvailableCondition) || controlPlane.Status.EtcdHealth != "1/1" || len(controlPlane.Status.Etcd) != 1 {
		t.Errorf("it says %v and %s of etcd, and %v", conditions.Get(controlPlane, conditionsv1.AvailableCondition), controlPlane.Status.EtcdHealth, controlPlane.Status.Etcd)
	}
	for _, object := range tt.objects() {
		// Its keys are made with all others.
		if object.GetLabels()[names.ComponentLabel] == names.EtcdEvents {
			t.Errorf("there is %s %s", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
		}
	}
	apiServer := &appsv1.DaemonSet{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-"+names.KubeAPIServer), apiServer); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(apiServer.Spec.Template.Spec.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "--etcd-servers-overrides") }) {
		t.Error("its API servers look for events elsewhere")
	}

	t.Run("it is upgraded", func(t *testing.T) {
		tt.t = t
		tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Version = "v1.36.4" })
		tt.settle()
		if image := tt.image(names.KubeAPIServer, &appsv1.DaemonSet{}); !strings.HasSuffix(image, ":v1.36.4") {
			t.Errorf("after its upgrade there is %s", image)
		}
	})
	t.Run("patches of what it goes without are refused", func(t *testing.T) {
		tt.t = t
		tt.storeRefused(patchOf(names.EtcdEvents, "StatefulSet", "metadata: {labels: {a: b}}"))
		tt.settle()
		tt.expectReconciled("with such a patch", "etcd.events.mode is InData")
	})
}
