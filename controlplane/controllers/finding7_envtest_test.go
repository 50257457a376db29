//go:build envtest

package controllers

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/webhooks"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// newestOf is the newest revision of a component.
func (tt *tenantTest) newestOf(component string) *appsv1.ControllerRevision {
	tt.t.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := environment.Client.List(tt.t.Context(), list, client.InNamespace(tt.key.Namespace), client.MatchingLabels{revision.ComponentLabel: component}); err != nil {
		tt.t.Fatal(err)
	}
	newest := &appsv1.ControllerRevision{}
	for i := range list.Items {
		if list.Items[i].Revision > newest.Revision {
			newest = &list.Items[i]
		}
	}
	return newest
}

// forge writes a revision of kube-scheduler after the newest, as who may write ControllerRevisions can.
func (tt *tenantTest) forge(edit func(content map[string]any)) *appsv1.ControllerRevision {
	tt.t.Helper()
	newest := tt.newestOf(names.KubeScheduler)
	content := map[string]any{}
	if err := json.Unmarshal(newest.Data.Raw, &content); err != nil {
		tt.t.Fatal(err)
	}
	edit(content)
	raw, err := json.Marshal(content)
	if err != nil {
		tt.t.Fatal(err)
	}
	forged := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: newest.Namespace, Labels: newest.Labels,
			Name: fmt.Sprintf("%s-%d", strings.TrimSuffix(newest.Name, fmt.Sprintf("-%d", newest.Revision)), newest.Revision+1),
		},
		Revision: newest.Revision + 1,
	}
	forged.Data.Raw = raw
	if err := environment.Client.Create(tt.t.Context(), forged); err != nil {
		tt.t.Fatal(err)
	}
	return forged
}

// added is one object more in a revision.
func added(object map[string]any) func(map[string]any) {
	return func(content map[string]any) { content["items"] = append(content["items"].([]any), object) }
}

// changed is the stored Deployment with something else at a path.
func changed(value any, path ...string) func(map[string]any) {
	return func(content map[string]any) {
		for _, item := range content["items"].([]any) {
			if object := item.(map[string]any); object["kind"] == "Deployment" {
				if err := unstructured.SetNestedField(object, value, path...); err != nil {
					panic(err)
				}
			}
		}
	}
}

// Finding 7: who may write ControllerRevisions in a namespace got objects of any kind applied by the manager, anywhere.
func TestFinding7AForgedRevisionIsNotApplied(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.program.Allow = webhooks.DefaultLimits().Allow
	tt.settle()
	before := tt.scheduler()
	for name, test := range map[string]struct {
		forge func(map[string]any)
		says  string
	}{
		"a role for everybody": {added(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "finding-7-" + tt.key.Namespace},
			"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}), "kube-scheduler has no such kind"},
		"a Secret in another namespace": {added(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "kube-system", "name": "finding-7-" + tt.key.Namespace}}),
			"Secret finding-7-" + tt.key.Namespace + ": kube-scheduler has no such kind"},
		"a ConfigMap in another namespace": {added(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": managerNamespace, "name": "finding-7-" + tt.key.Namespace}}),
			"metadata.namespace must be " + tt.key.Namespace},
		"a Pod of its own":     {added(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": tt.key.Namespace, "name": "finding-7"}}), "no such kind"},
		"a kind nobody knows":  {added(map[string]any{"apiVersion": "example/v1", "kind": "Other", "metadata": map[string]any{"name": "finding-7"}}), `no kind "Other" is registered`},
		"a host's processes":   {changed(true, "spec", "template", "spec", "hostPID"), "spec.template.spec.hostPID must not be set"},
		"a service account":    {changed("admin", "spec", "template", "spec", "serviceAccountName"), "spec.template.spec.serviceAccountName must not be set"},
		"a host's files":       {changed([]any{map[string]any{"name": "host", "hostPath": map[string]any{"path": "/"}}}, "spec", "template", "spec", "volumes"), "hostPath"},
		"nodes of other kinds": {changed(map[string]any{"kubernetes.io/os": "linux"}, "spec", "template", "spec", "nodeSelector"), "must contain kok.cluster.x-k8s.io/host-node=true"},
		"nodes of a port pool": {changed(map[string]any{controlplanev1.HostNodeLabel: "true", controlplanev1.PortPoolLabel: "north"}, "spec", "template", "spec", "nodeSelector"), "the port pool of the tenant"},
		"another's host port": {changed([]any{map[string]any{"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.36.3", "ports": []any{
			map[string]any{"containerPort": int64(10260), "hostPort": int64(10260)}}, "securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
		}}}, "spec", "template", "spec", "containers"), "must have no port of the host but"},
		"another's user":  {changed(int64(1_100_000_001), "spec", "template", "spec", "securityContext", "runAsUser"), "are those of tenants"},
		"no JSON of ours": {func(content map[string]any) { content["items"] = "none" }, "cannot unmarshal"},
	} {
		forged := tt.forge(test.forge)
		err := tt.reconcile()
		want := fmt.Sprintf("ControllerRevision %s/%s is not applied: ", forged.Namespace, forged.Name)
		condition := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition)
		if err == nil || condition == nil || condition.Status != metav1.ConditionFalse || !strings.Contains(condition.Message, want) ||
			!strings.Contains(condition.Message, test.says) || !strings.Contains(condition.Message, "delete it") {
			t.Errorf("%s: %v, %+v", name, err, condition)
		}
		if after := tt.scheduler(); after.Generation != before.Generation {
			t.Errorf("%s: it was applied: %+v", name, after.Spec.Template.Spec)
			before = after
		}
		if err := environment.Client.Delete(t.Context(), forged); err != nil {
			t.Fatal(err)
		}
	}
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	for _, object := range []client.Object{
		&rbacv1.ClusterRoleBinding{ObjectMeta: named("", "finding-7-"+tt.key.Namespace)},
		&corev1.Secret{ObjectMeta: named("kube-system", "finding-7-"+tt.key.Namespace)},
		&corev1.ConfigMap{ObjectMeta: named(managerNamespace, "finding-7-"+tt.key.Namespace)},
		&corev1.Pod{ObjectMeta: named(tt.key.Namespace, "finding-7")},
	} {
		if err := environment.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s may have been applied: %v", object, object.GetName(), err)
		}
	}
	tt.settle()
	if condition := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition); condition.Status != metav1.ConditionTrue {
		t.Errorf("without forged revisions: %+v", condition)
	}
}

// What a revision names as superseded is deleted: keys and data of the tenant have its labels, too.
func TestFinding7AForgedRevisionDeletesNothing(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.settle()
	keys := tt.inNamespace(names.KeyMaterial("blue"))
	tt.forge(func(content map[string]any) {
		content["former"] = []any{
			map[string]any{"apiVersion": "v1", "kind": "Secret", "name": keys.Name},
			map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "blue-etcd-data"},
		}
	})
	uid := func(object client.Object, key client.ObjectKey) string {
		if err := environment.Client.Get(t.Context(), key, object); err != nil {
			t.Fatal(err)
		}
		return string(object.GetUID())
	}
	secret, members := uid(&corev1.Secret{}, keys), uid(&appsv1.StatefulSet{}, tt.inNamespace("blue-etcd-data"))
	tt.settle()
	if uid(&corev1.Secret{}, keys) != secret || uid(&appsv1.StatefulSet{}, tt.inNamespace("blue-etcd-data")) != members {
		t.Error("what a forged revision named was deleted")
	}
}

// What was within the limits when the spec was written goes on when they become stricter.
func TestFinding7AStoredRenderingOutlivesStricterLimits(t *testing.T) {
	t.Parallel()
	tt := newRollingTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		small(c)
		c.Spec.ImageRepository = "registry.example/k8s"
	})
	tt.program.Allow = webhooks.DefaultLimits().Allow
	tt.settle()
	limits := webhooks.DefaultLimits()
	limits.ImageRepositories = []string{"registry.k8s.io"}
	limits.HostNodes = maps.Clone(limits.HostNodes)
	limits.HostNodes["pool"] = "new"
	tt.program.Allow = limits.Allow
	tt.settle()
	if condition := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition); condition.Status != metav1.ConditionTrue {
		t.Errorf("with stricter limits: %+v", condition)
	}
	// A person changes the spec to fit the limits, as docs/security.md says.
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.ImageRepository, s.Hosting.NodeSelector = "registry.k8s.io", limits.HostNodes
	})
	if condition := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition); condition.Status != metav1.ConditionTrue {
		t.Errorf("with a spec that fits: %+v", condition)
	}
	for component, workload := range workloads.Kinds(tt.controlPlane()) {
		if err := environment.Client.Get(t.Context(), client.ObjectKey{Namespace: tt.key.Namespace, Name: names.Object(tt.cluster.Name, component)}, workload); err != nil {
			t.Fatal(err)
		}
		pod := patches.PodTemplate(workload).Spec
		if image := pod.Containers[0].Image; !strings.HasPrefix(image, "registry.k8s.io/") || pod.NodeSelector["pool"] != "new" {
			t.Errorf("%s has image %s on nodes %v", component, image, pod.NodeSelector)
		}
	}
	tt.forge(changed([]any{map[string]any{"name": "kube-scheduler", "image": "other.example/a:v1", "securityContext": map[string]any{
		"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
	}}}, "spec", "template", "spec", "containers"))
	if err := tt.reconcile(); err == nil || !strings.Contains(err.Error(), "must be in registry.k8s.io") {
		t.Errorf("an image of elsewhere: %v", err)
	}
}
