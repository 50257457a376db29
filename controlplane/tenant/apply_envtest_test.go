//go:build envtest

package tenant

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/envtest/plain"
)

var environment = &envtest.Environment{}

func TestMain(m *testing.M) {
	plain.Main(m, environment, func(*rest.Config) error { return nil })
}

// counting is a client for the tenant and the number of its writes.
func counting(t *testing.T) (client.Client, *atomic.Int32) {
	t.Helper()
	inner, err := NewClient(environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	watching, err := client.NewWithWatch(environment.Config, client.Options{Scheme: inner.Scheme(), Mapper: inner.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	writes := &atomic.Int32{}
	return interceptor.NewClient(watching, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			writes.Add(1)
			return c.Apply(ctx, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes.Add(1)
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			writes.Add(1)
			return c.Delete(ctx, o, opts...)
		},
	}), writes
}

func objects(t *testing.T, s Settings) []client.Object {
	t.Helper()
	all, err := Objects(s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func mustApply(t *testing.T, tenant client.Client, all []client.Object) bool {
	t.Helper()
	changed, err := Apply(t.Context(), tenant, all)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// versions are the resource versions of all objects: any write to one changes it.
func versions(t *testing.T, tenant client.Client, all []client.Object) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, object := range all {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
		if err := tenant.Get(t.Context(), client.ObjectKeyFromObject(object), live); err != nil {
			t.Fatal(err)
		}
		out[live.GetKind()+" "+client.ObjectKeyFromObject(live).String()] = live.GetResourceVersion()
	}
	return out
}

func TestApplyWritesOnlyWhatDiffers(t *testing.T) {
	tenant, writes := counting(t)
	all := objects(t, settings())
	if !mustApply(t, tenant, all) {
		t.Fatal("the first apply changed nothing")
	}
	before := versions(t, tenant, all)
	writes.Store(0)
	if mustApply(t, tenant, all) || writes.Load() != 0 {
		t.Errorf("the second apply wrote %d times", writes.Load())
	}
	for name, version := range versions(t, tenant, all) {
		if version != before[name] {
			t.Errorf("%s was written", name)
		}
	}

	upgraded := settings()
	upgraded.Version = "v1.36.4"
	if !mustApply(t, tenant, objects(t, upgraded)) || writes.Load() != 1 {
		t.Errorf("a new version took %d writes, want one to kubeadm-config", writes.Load())
	}
	mustApply(t, tenant, all)
}

func edit[T client.Object](namespace, name string, object T, change func(T)) func(*testing.T, client.Client) {
	return func(t *testing.T, tenant client.Client) {
		t.Helper()
		if err := tenant.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			t.Fatal(err)
		}
		change(object)
		if err := tenant.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func remove[T client.Object](namespace, name string, object T) func(*testing.T, client.Client) {
	return func(t *testing.T, tenant client.Client) {
		t.Helper()
		object.SetNamespace(namespace)
		object.SetName(name)
		if err := tenant.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func TestApplyRepairsWhatAPersonChanged(t *testing.T) {
	admins := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "mallory"}
	for name, change := range map[string]func(*testing.T, client.Client){
		"cluster-info names another server": edit("kube-public", "cluster-info", &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Data["kubeconfig"] = "apiVersion: v1" }),
		"cluster-info is empty":             edit("kube-public", "cluster-info", &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Data = nil }),
		"kubeadm-config is deleted":         remove("kube-system", "kubeadm-config", &corev1.ConfigMap{}),
		"kubelet-config is edited":          edit("kube-system", "kubelet-config", &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Data["kubelet"] += "maxPods: 1\n" }),
		"a subject is added": edit("", "kubeadm:kubelet-bootstrap", &rbacv1.ClusterRoleBinding{}, func(b *rbacv1.ClusterRoleBinding) {
			b.Subjects = append(b.Subjects, admins)
		}),
		"all subjects are taken away": edit("default", apiServerEndpointsRole, &rbacv1.RoleBinding{}, func(b *rbacv1.RoleBinding) { b.Subjects = nil }),
		"a rule is widened": edit("default", apiServerEndpointsRole, &rbacv1.Role{}, func(r *rbacv1.Role) {
			r.Rules[0].ResourceNames = nil
		}),
		"a rule is added": edit("", getNodesRole, &rbacv1.ClusterRole{}, func(r *rbacv1.ClusterRole) {
			r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}})
		}),
		"a label is taken away":    edit("kube-public", clusterInfoRole, &rbacv1.Role{}, func(r *rbacv1.Role) { r.Labels = nil }),
		"a ClusterRole is deleted": remove("", getNodesRole, &rbacv1.ClusterRole{}),
		"a binding of another role is in the place": func(t *testing.T, tenant client.Client) {
			remove("", "kubeadm:get-nodes", &rbacv1.ClusterRoleBinding{})(t, tenant)
			other := &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:get-nodes"}, Subjects: []rbacv1.Subject{admins},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			}
			if err := tenant.Create(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tenant, writes := counting(t)
			all := objects(t, settings())
			mustApply(t, tenant, all)
			change(t, tenant)
			if !mustApply(t, tenant, all) {
				t.Error("nothing was written")
			}
			for _, object := range all {
				wanted, err := apply.Prepare(object, tenant.Scheme())
				if err != nil {
					t.Fatal(err)
				}
				live := wanted.DeepCopy()
				if err := tenant.Get(t.Context(), client.ObjectKeyFromObject(object), live); err != nil {
					t.Fatal(err)
				}
				if !apply.Contains(live.Object, wanted.Object) {
					t.Errorf("%s %s is not repaired", live.GetKind(), live.GetName())
				}
			}
			writes.Store(0)
			if mustApply(t, tenant, all) || writes.Load() != 0 {
				t.Errorf("not settled: %d writes", writes.Load())
			}
		})
	}
}

func TestApplyLeavesSignaturesOfClusterInfo(t *testing.T) {
	tenant, writes := counting(t)
	all := objects(t, settings())
	mustApply(t, tenant, all)
	sign := func(c *corev1.ConfigMap) { c.Data["jws-kubeconfig-abcdef"] = "signature" }
	edit("kube-public", "cluster-info", &corev1.ConfigMap{}, sign)(t, tenant)
	writes.Store(0)
	if mustApply(t, tenant, all) || writes.Load() != 0 {
		t.Error("a signature was taken for a difference")
	}
	edit("kube-public", "cluster-info", &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Data["kubeconfig"] = "" })(t, tenant)
	mustApply(t, tenant, all)
	info := &corev1.ConfigMap{}
	if err := tenant.Get(t.Context(), client.ObjectKey{Namespace: "kube-public", Name: "cluster-info"}, info); err != nil {
		t.Fatal(err)
	}
	if info.Data["jws-kubeconfig-abcdef"] != "signature" || info.Data["kubeconfig"] == "" {
		t.Errorf("data is %v", info.Data)
	}
}

func TestApplyTakesAwayWhatARenderingNoLongerSays(t *testing.T) {
	tenant, writes := counting(t)
	before, after := configMap("default", "patched", "key", "value"), configMap("default", "patched", "key", "value")
	before.Annotations, before.Data["more"] = map[string]string{"example/a": "b"}, "of it"
	mustApply(t, tenant, []client.Object{before})
	edit("default", "patched", &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Data["foreign"] = "stays" })(t, tenant)
	if !mustApply(t, tenant, []client.Object{after}) {
		t.Error("nothing was written")
	}
	live := &corev1.ConfigMap{}
	if err := tenant.Get(t.Context(), client.ObjectKeyFromObject(after), live); err != nil {
		t.Fatal(err)
	}
	if live.Annotations["example/a"] != "" || len(live.Data) != 2 || live.Data["foreign"] != "stays" {
		t.Errorf("it has annotations %v and data %v", live.Annotations, live.Data)
	}
	writes.Store(0)
	if mustApply(t, tenant, []client.Object{after}) || writes.Load() != 0 {
		t.Errorf("not settled: %d writes", writes.Load())
	}
}

func TestApplyDoesNotWaitForANamespace(t *testing.T) {
	tenant, _ := counting(t)
	late := configMap("late", "something", "key", "value")
	if !mustApply(t, tenant, []client.Object{late}) || mustApply(t, tenant, []client.Object{late}) {
		t.Error("not written once")
	}
}

func TestApplyTriesAllAndNamesWhatFailed(t *testing.T) {
	tenant, _ := counting(t)
	bad := configMap("default", "Not A Name", "key", "value")
	good := configMap("default", "good", "key", "value")
	changed, err := Apply(t.Context(), tenant, []client.Object{bad, good})
	if !changed || err == nil {
		t.Fatalf("changed %t, err %v", changed, err)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Errorf("err = %v", err)
	}
	if err := tenant.Get(t.Context(), client.ObjectKeyFromObject(good), &corev1.ConfigMap{}); err != nil {
		t.Error(err)
	}
}

// eventually waits until kube-apiserver's authorizer has seen what was written.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Error(last)
	}
}

func TestRightsAreThoseOfKubeadm(t *testing.T) {
	tenant, _ := counting(t)
	mustApply(t, tenant, objects(t, settings()))
	reviewer, err := client.New(environment.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	node := authorizationv1.SubjectAccessReviewSpec{User: "system:node:a", Groups: []string{nodesGroup}}
	token := authorizationv1.SubjectAccessReviewSpec{User: "system:bootstrap:abcdef", Groups: []string{NodeBootstrapTokenGroup}}
	anonymous := authorizationv1.SubjectAccessReviewSpec{User: anonymousUser, Groups: []string{unauthenticatedGroup}}
	apiServer := authorizationv1.SubjectAccessReviewSpec{User: names.KubeletClientUser}
	for _, test := range []struct {
		who                                         authorizationv1.SubjectAccessReviewSpec
		verb, namespace, group, resource, sub, name string
		want                                        bool
	}{
		{node, "watch", "default", "discovery.k8s.io", "endpointslices", "", "kubernetes", true},
		{node, "list", "default", "discovery.k8s.io", "endpointslices", "", "kubernetes", true},
		{node, "list", "default", "discovery.k8s.io", "endpointslices", "", "", false},
		{node, "update", "default", "discovery.k8s.io", "endpointslices", "", "kubernetes", false},
		{node, "get", "kube-system", "", "configmaps", "", "kubelet-config", true},
		{node, "create", "", "certificates.k8s.io", "certificatesigningrequests", "selfnodeclient", "", true},
		{token, "get", "kube-system", "", "configmaps", "", "kubeadm-config", true},
		{token, "get", "kube-system", "", "configmaps", "", "extension-apiserver-authentication", false},
		{token, "get", "", "", "nodes", "", "a", true},
		{token, "list", "", "", "secrets", "", "", false},
		{token, "create", "", "certificates.k8s.io", "certificatesigningrequests", "", "", true},
		// Finding 5: kubeadm's would have kube-controller-manager approve any node's name.
		{token, "create", "", "certificates.k8s.io", "certificatesigningrequests", "nodeclient", "", false},
		{anonymous, "get", "kube-public", "", "configmaps", "", "cluster-info", true},
		{anonymous, "list", "kube-public", "", "configmaps", "", "", false},
		{anonymous, "get", "kube-system", "", "configmaps", "", "kubeadm-config", false},
		{apiServer, "get", "", "", "nodes", "proxy", "a", true},
		{apiServer, "list", "", "", "pods", "", "", false},
	} {
		eventually(t, func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: test.who}
			review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
				Verb: test.verb, Namespace: test.namespace, Group: test.group, Resource: test.resource, Subresource: test.sub, Name: test.name,
			}
			if err := reviewer.Create(t.Context(), review); err != nil {
				return err
			}
			if review.Status.Allowed != test.want {
				return fmt.Errorf("%s %s %s/%s %q in %q: allowed %t", test.who.User, test.verb, test.resource, test.sub, test.name, test.namespace, review.Status.Allowed)
			}
			return nil
		})
	}
}

func TestAnyoneReadsClusterInfo(t *testing.T) {
	tenant, _ := counting(t)
	mustApply(t, tenant, objects(t, settings()))
	stranger, err := NewClient(rest.AnonymousClientConfig(environment.Config))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		return stranger.Get(t.Context(), client.ObjectKey{Namespace: "kube-public", Name: "cluster-info"}, &corev1.ConfigMap{})
	})
	if err := stranger.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "kubeadm-config"}, &corev1.ConfigMap{}); !apierrors.IsForbidden(err) {
		t.Errorf("err = %v", err)
	}
}
