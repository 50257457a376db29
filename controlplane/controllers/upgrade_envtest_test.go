//go:build envtest

package controllers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// upgrading is a tenant whose upgrade from v1.35.4 to v1.36.3 has begun, with the DaemonSet of its API servers.
func upgrading(t *testing.T) (tt *tenantTest, daemons *appsv1.DaemonSet, reconcile func()) {
	t.Helper()
	tt = newTenantTest(t, func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.35.4" })
	tt.settle()
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Version = "v1.36.3" })
	reconcile = func() {
		t.Helper()
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	daemons = &appsv1.DaemonSet{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace("blue-kube-apiserver"), daemons); err != nil {
		t.Fatal(err)
	}
	return tt, daemons, reconcile
}

// An upgrade waits for a host that is off for as long as that is away.
func TestWhileAnUpgradeWaitsWhatComesLaterIsRepaired(t *testing.T) {
	tt, daemons, reconcile := upgrading(t)
	daemons.Status = appsv1.DaemonSetStatus{
		ObservedGeneration: daemons.Generation, DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, UpdatedNumberScheduled: 2, NumberReady: 2, NumberAvailable: 2,
	}
	if err := environment.Client.Status().Update(t.Context(), daemons); err != nil {
		t.Fatal(err)
	}
	reconcile()
	before := tt.contents()
	edit(t, tt.inNamespace("blue-kube-controller-manager"), &appsv1.Deployment{}, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "registry.example/other"
	})
	for _, deleted := range []string{"Deployment blue-kube-scheduler", "PodDisruptionBudget blue-kube-scheduler", "Secret blue-apiserver-lb"} {
		object := tt.generated()[deleted]
		if object == nil {
			t.Fatalf("there is no %s", deleted)
		}
		tt.delete(object)
	}
	reconcile()
	after := tt.contents()
	for name := range before {
		if diff := cmp.Diff(before[name], after[name]); diff != "" {
			t.Errorf("%s differs (-before +after):\n%s", name, diff)
		}
	}
	if message := conditions.GetMessage(tt.controlPlane(), conditionsv1.ReconciledCondition); !strings.Contains(message, "kube-apiserver rolls out: 2 of 3 pods are up to date") {
		t.Errorf("it says %q", message)
	}
	tt.writesNothing("while the upgrade waits")
}

// Kubernetes' version skew policy: no component is newer than an API server that still runs.
func TestAnUpgradeGoesOnWhenEveryAPIServerIsAvailable(t *testing.T) {
	tt, daemons, reconcile := upgrading(t)
	if image := daemons.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":v1.36.3") {
		t.Fatalf("kube-apiserver's image is %s", image)
	}
	for _, step := range []struct {
		says                               string
		current, updated, ready, available int32
		others                             string
		// stopped is true when the pods of the old version have gone.
		stopped bool
	}{
		{"nothing was seen of the new version", 3, 0, 3, 3, "v1.35.4", false},
		{"a pod is replaced", 3, 1, 2, 2, "v1.35.4", false},
		{"the last old pod has stopped and has no successor yet", 2, 2, 2, 2, "v1.35.4", false},
		{"the last new pod is not ready", 3, 3, 2, 2, "v1.35.4", false},
		{"the last new pod was ready just now, and minReadySeconds asks for more", 3, 3, 3, 2, "v1.35.4", false},
		{"all new pods are available, and old ones, which do not count any more, still stop", 3, 3, 3, 3, "v1.35.4", false},
		{"all new pods are available, and no other runs", 3, 3, 3, 3, "v1.36.3", true},
	} {
		daemons.Status.ObservedGeneration, daemons.Status.DesiredNumberScheduled = daemons.Generation, 3
		daemons.Status.CurrentNumberScheduled, daemons.Status.UpdatedNumberScheduled = step.current, step.updated
		daemons.Status.NumberReady, daemons.Status.NumberAvailable = step.ready, step.available
		if err := environment.Client.Status().Update(t.Context(), daemons); err != nil {
			t.Fatal(err)
		}
		if step.stopped {
			tt.stopOldAPIServers()
		}
		reconcile()
		for _, name := range []string{"blue-kube-controller-manager", "blue-kube-scheduler"} {
			deployment := &appsv1.Deployment{}
			if err := environment.Client.Get(t.Context(), tt.inNamespace(name), deployment); err != nil {
				t.Fatal(err)
			}
			if image := deployment.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+step.others) {
				t.Errorf("%s: %s has image %s", step.says, name, image)
			}
		}
	}
}

// stopOldAPIServers lets the old pods of API servers end. One of them stays as a record.
func (tt *tenantTest) stopOldAPIServers() {
	tt.t.Helper()
	ctx, pods := tt.t.Context(), &corev1.PodList{}
	if err := environment.Client.List(ctx, pods, client.InNamespace(tt.key.Namespace), client.MatchingLabels(names.ComponentLabels(tt.cluster, names.KubeAPIServer))); err != nil {
		tt.t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		pod.Status.Phase = corev1.PodFailed
		end := func() error { return environment.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)) }
		if i == 0 {
			end = func() error { return environment.Client.Status().Update(ctx, pod) }
		}
		if err := end(); err != nil {
			tt.t.Fatal(err)
		}
	}
}
