//go:build envtest

package controllers

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const (
	v136 = "- {minor: v1.36, etcd: 3.6.8-0, coreDNS: v1.14.2, konnectivity: v0.34.0}\n"
	v137 = "- {minor: v1.37, etcd: 3.7.0-0, coreDNS: v1.15.0, konnectivity: v0.35.0}\n"
)

// supports puts a table of releases in force, without any the one that is built in, and waits until v1.37 is
// accepted or refused.
func supports(t *testing.T, releases string) {
	t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: versions.ConfigMapName}}
	if err := client.IgnoreNotFound(environment.Client.Delete(context.Background(), configMap)); err != nil {
		t.Fatal(err)
	}
	if releases != "" {
		configMap.ResourceVersion = ""
		configMap.Data = map[string]string{versions.ConfigMapKey: "releases:\n" + releases}
		if err := environment.Client.Create(context.Background(), configMap); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "webhooks know the table", func() bool { return refusalOfNew(t) == nil == strings.Contains(releases, v137) })
}

// refusalOfNew is why no control plane of v1.37 can be made.
func refusalOfNew(t *testing.T) error {
	return environment.Client.Create(t.Context(), &controlplanev1.KOKControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "new"},
		Spec:       controlplanev1.KOKControlPlaneSpec{Version: "v1.37.0"},
	}, client.DryRunAll)
}

func (tt *tenantTest) image(workload string, object client.Object) string {
	tt.t.Helper()
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-"+workload), object); err != nil {
		return ""
	}
	switch workload := object.(type) {
	case *appsv1.StatefulSet:
		return workload.Spec.Template.Spec.Containers[0].Image
	case *appsv1.DaemonSet:
		return workload.Spec.Template.Spec.Containers[0].Image
	case *appsv1.Deployment:
		return workload.Spec.Template.Spec.Containers[0].Image
	}
	return ""
}

func (tt *tenantTest) says(condition, words string) func() bool {
	return func() bool { return strings.Contains(conditions.GetMessage(tt.controlPlane(), condition), words) }
}

// No manager is restarted, and nothing but the table changes.
func TestAVersionIsAddedAsData(t *testing.T) {
	const advice = "v1.37 is not supported; supported are v1.34, v1.35 and v1.36; to support others, list them in the ConfigMap " + versions.ConfigMapName
	grant(t)
	if err := refusalOfNew(t); err == nil || !strings.Contains(err.Error(), advice) {
		t.Fatalf("err = %v", err)
	}
	t.Cleanup(func() { // The context of the test has ended by then.
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: versions.ConfigMapName}}
		if err := client.IgnoreNotFound(environment.Client.Delete(context.Background(), configMap)); err != nil {
			t.Error(err)
		}
	})
	supports(t, v136+v137)
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		single(c)
		c.Spec.Version = "v1.37.0"
	})
	supports(t, "")
	tt.host.keepWorking()
	g := &gate{}
	stop := startManager(t, g)
	eventually(t, "it says what is to do", tt.says(conditionsv1.AvailableCondition, "spec.version: "+advice))
	comesToRest(t, g)

	supports(t, v136+v137)
	eventually(t, "it is available", tt.available)
	got := map[string]string{
		names.EtcdData:              tt.image(names.EtcdData, &appsv1.StatefulSet{}),
		names.EtcdEvents:            tt.image(names.EtcdEvents, &appsv1.StatefulSet{}),
		names.KubeAPIServer:         tt.image(names.KubeAPIServer, &appsv1.DaemonSet{}),
		names.KubeControllerManager: tt.image(names.KubeControllerManager, &appsv1.Deployment{}),
		names.KubeScheduler:         tt.image(names.KubeScheduler, &appsv1.Deployment{}),
	}
	if diff := cmp.Diff(map[string]string{
		names.EtcdData:              "registry.k8s.io/etcd:3.7.0-0",
		names.EtcdEvents:            "registry.k8s.io/etcd:3.7.0-0",
		names.KubeAPIServer:         "registry.k8s.io/kube-apiserver:v1.37.0",
		names.KubeControllerManager: "registry.k8s.io/kube-controller-manager:v1.37.0",
		names.KubeScheduler:         "registry.k8s.io/kube-scheduler:v1.37.0",
	}, got); diff != "" {
		t.Errorf("images differ (-want +got):\n%s", diff)
	}

	comesToRest(t, g)
	pods := tt.podUIDs()
	supports(t, v136)
	eventually(t, "it says that its version is none any more", tt.says(conditionsv1.ReconciledCondition, "v1.37 is not supported; supported are v1.36;"))
	tt.delete(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "blue-kube-scheduler"}})
	eventually(t, "what is deleted comes back at its version", func() bool {
		return tt.image(names.KubeScheduler, &appsv1.Deployment{}) == "registry.k8s.io/kube-scheduler:v1.37.0"
	})
	for name, uid := range pods {
		if now := tt.podUIDs()[name]; now != uid && !strings.Contains(name, names.KubeScheduler) {
			t.Errorf("pod %s was made anew", name)
		}
	}
	stop()
	if forbidden := g.forbidden(); len(forbidden) > 0 {
		t.Errorf("the role does not allow %v", forbidden)
	}
}
