//go:build envtest

package controllers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// podTemplates are the templates of the pods of all workloads, by their names.
func (tt *tenantTest) podTemplates() map[string]corev1.PodTemplateSpec {
	tt.t.Helper()
	templates := map[string]corev1.PodTemplateSpec{}
	var sets appsv1.StatefulSetList
	var daemons appsv1.DaemonSetList
	var deployments appsv1.DeploymentList
	for _, list := range []client.ObjectList{&sets, &daemons, &deployments} {
		if err := environment.Client.List(tt.t.Context(), list, client.InNamespace(tt.key.Namespace)); err != nil {
			tt.t.Fatal(err)
		}
	}
	for _, set := range sets.Items {
		templates[set.Name] = set.Spec.Template
	}
	for _, daemon := range daemons.Items {
		templates[daemon.Name] = daemon.Spec.Template
	}
	for _, deployment := range deployments.Items {
		templates[deployment.Name] = deployment.Spec.Template
	}
	return templates
}

// expectUser looks whom the pods of all workloads run as.
func (tt *tenantTest) expectUser(when string, user int64) {
	tt.t.Helper()
	templates := tt.podTemplates()
	if len(templates) != len(registry.Components.Names()) {
		tt.t.Errorf("%s: there are %d workloads", when, len(templates))
	}
	for name, template := range templates {
		if got := ptr.Deref(template.Spec.SecurityContext.RunAsUser, 0); got != user {
			tt.t.Errorf("%s: pods of %s run as %d, not %d", when, name, got, user)
		}
	}
}

// storeRevisions replaces what is stored of all components.
func (tt *tenantTest) storeRevisions(change func(*appsv1.ControllerRevision) bool) {
	tt.t.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := environment.Client.List(tt.t.Context(), list, client.InNamespace(tt.key.Namespace), client.HasLabels{revision.ComponentLabel}); err != nil {
		tt.t.Fatal(err)
	}
	for i := range list.Items {
		stored := &list.Items[i]
		if err := environment.Client.Delete(tt.t.Context(), stored); err != nil {
			tt.t.Fatal(err)
		}
		if stored.ObjectMeta = (metav1.ObjectMeta{Namespace: stored.Namespace, Name: stored.Name, Labels: stored.Labels, OwnerReferences: stored.OwnerReferences}); !change(stored) {
			continue
		}
		if err := environment.Client.Create(tt.t.Context(), stored); err != nil {
			tt.t.Fatal(err)
		}
	}
}

// changeMembers makes etcd and the scheduler adopt a new rendering.
func (tt *tenantTest) changeMembers(memory string) {
	tt.t.Helper()
	tt.editSpec(func(spec *controlplanev1.KOKControlPlaneSpec) {
		resources := &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
		spec.Etcd.Data.Resources, spec.KubeScheduler.Resources = resources, resources
	})
	tt.settle()
}

func TestFinding11ANewTenantRunsAsAUserOfItsOwn(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.settle()
	user := 1_000_000_000 + int64(tt.controlPlane().Spec.Hosting.Ports.First)
	tt.expectUser("when it is made", user)
	tt.changeMembers("123Mi")
	tt.expectUser("when its spec has changed", user)
	tt.storeRevisions(func(*appsv1.ControllerRevision) bool { return false })
	tt.changeMembers("124Mi")
	tt.expectUser("when all that is stored was lost", user)
}

// Older programs had one user for all tenants, and wrote no user down.
func TestFinding11ATenantOfAnOlderProgramKeepsTheUserThatItHas(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.settle()
	own := fmt.Sprint(1_000_000_000 + int64(tt.controlPlane().Spec.Hosting.Ports.First))
	tt.storeRevisions(func(stored *appsv1.ControllerRevision) bool {
		content := map[string]any{}
		if err := json.Unmarshal(bytes.ReplaceAll(stored.Data.Raw, []byte(own), []byte(fmt.Sprint(components.SharedUser))), &content); err != nil {
			t.Fatal(err)
		}
		delete(content, "user")
		raw, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		stored.Data.Raw = raw
		return true
	})
	tt.settle()
	tt.expectUser("when nothing has changed", components.SharedUser)
	tt.changeMembers("123Mi")
	tt.expectUser("when its spec has changed", components.SharedUser)
	tt.storeRevisions(func(stored *appsv1.ControllerRevision) bool {
		return !strings.HasPrefix(stored.Name, names.Object(tt.key.Name, names.EtcdData))
	})
	tt.changeMembers("124Mi")
	tt.expectUser("when what is stored of etcd was lost", components.SharedUser)
}

// Who may write ControllerRevisions writes down the user of another tenant, and has the members rendered anew.
func TestFinding11AForgedUserIsNotBelieved(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.settle()
	own := 1_000_000_000 + int64(tt.controlPlane().Spec.Hosting.Ports.First)
	tt.storeRevisions(func(stored *appsv1.ControllerRevision) bool {
		content := map[string]any{}
		if err := json.Unmarshal(stored.Data.Raw, &content); err != nil {
			t.Fatal(err)
		}
		content["user"] = own + 20
		raw, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		stored.Data.Raw = raw
		return true
	})
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.Data.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("123Mi")}}
	})
	if err := tt.reconcile(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("its pods run as %d, and its own user is %d", own+20, own)) {
		t.Errorf("the forged user is believed: %v", err)
	}
	tt.expectUser("after the forgery", own)
}
