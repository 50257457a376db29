//go:build envtest

package controllers

import (
	"maps"
	"slices"
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
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/apply"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

func patchOf(component, kind, text string) controlplanev1.Patch {
	return controlplanev1.Patch{Target: controlplanev1.PatchTarget{Component: component, Kind: kind}, Patch: text}
}

func (tt *tenantTest) patch(patches ...controlplanev1.Patch) {
	tt.t.Helper()
	edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Patches = patches })
	tt.settle()
}

// contents are what all generated objects say, but for revisions, which are history, and the hash of what
// was applied: a Service that comes back asks for its address.
func (tt *tenantTest) contents() map[string]map[string]any {
	tt.t.Helper()
	all := map[string]map[string]any{}
	for name, object := range tt.generated() {
		if !strings.HasPrefix(name, "ControllerRevision ") {
			annotations := maps.Clone(object.GetAnnotations())
			delete(annotations, apply.RenderingAnnotation)
			object.SetAnnotations(annotations)
			all[name] = content(tt.t, object)
		}
	}
	return all
}

func (tt *tenantTest) scheduler() *appsv1.Deployment {
	tt.t.Helper()
	d := &appsv1.Deployment{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-kube-scheduler"), d); err != nil {
		tt.t.Fatal(err)
	}
	return d
}

func (tt *tenantTest) writesNothing(when string) {
	tt.t.Helper()
	for name, program := range map[string]*program{"the same program": tt.program, "a new program": newProgram(tt.t, &gate{})} {
		program.gate.take()
		before := tt.program
		tt.program = program
		for range 3 {
			if err := tt.reconcile(); err != nil {
				tt.t.Fatal(err)
			}
		}
		tt.program = before
		if writes := program.gate.takeWrites(); len(writes) > 0 {
			tt.t.Errorf("%s %s wrote %v", when, name, writes)
		}
	}
}

const sidecarPatch = `
metadata:
  annotations: {example/owner: platform}
spec:
  template:
    metadata:
      annotations: {example/scrape: "true"}
    spec:
      runtimeClassName: null
      nodeSelector: {rack: a}
      volumes:
      - name: side
        emptyDir: {sizeLimit: 1024Ki}
      containers:
      - name: side
        image: registry.example/side:v1
        volumeMounts:
        - {name: side, mountPath: /side}
      - name: kube-scheduler
        env:
        - {name: GOMEMLIMIT, value: 512MiB}
        resources:
          limits: {cpu: 1000m}
        volumeMounts:
        - {name: side, mountPath: /side}
`

func isPatched(d *appsv1.Deployment) bool {
	pod := d.Spec.Template
	return d.Annotations["example/owner"] == "platform" && pod.Annotations["example/scrape"] == "true" && pod.Spec.NodeSelector["rack"] == "a" &&
		len(pod.Spec.Containers) == 2 && pod.Spec.Containers[0].Name == names.KubeScheduler && pod.Spec.Containers[1].Name == "side" &&
		len(pod.Spec.Containers[0].Env) == 1 && pod.Spec.Containers[0].Resources.Limits.Cpu().String() == "1" &&
		slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "side" })
}

func TestAPatchChangesItsComponentAlone(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, small)
	tt.settle()
	before := tt.contents()
	tt.patch(patchOf(names.KubeScheduler, "Deployment", sidecarPatch))
	if d := tt.scheduler(); !isPatched(d) {
		t.Fatalf("the live object is %+v", d)
	}
	after := tt.contents()
	for name := range before {
		if changed := !cmp.Equal(before[name], after[name]); changed != (name == "Deployment blue-kube-scheduler") {
			t.Errorf("that %s changed is %t", name, changed)
		}
	}
	for _, component := range registry.Components.Names() {
		if tt.generated()["ControllerRevision blue-"+component+"-2"] != nil != (component == names.KubeScheduler) {
			t.Errorf("%s adopted a new rendering, or the scheduler did not", component)
		}
	}
	tt.writesNothing("with a patch")

	t.Run("survives what is edited by hand", func(t *testing.T) {
		edit(t, tt.inNamespace("blue-kube-scheduler"), &appsv1.Deployment{}, func(d *appsv1.Deployment) {
			delete(d.Annotations, "example/owner")
			delete(d.Spec.Template.Annotations, "example/scrape")
			d.Spec.Template.Spec.Containers = d.Spec.Template.Spec.Containers[:1]
			d.Spec.Template.Spec.Containers[0].Env = nil
			d.Spec.Template.Spec.NodeSelector["rack"] = "b"
		})
		tt.settle()
		if d := tt.scheduler(); !isPatched(d) {
			t.Errorf("the live object is %+v", d)
		}
	})
	t.Run("goes away when it is removed", func(t *testing.T) {
		tt.patch()
		if diff := cmp.Diff(before, tt.contents()); diff != "" {
			t.Errorf("it is not as before (-before +after):\n%s", diff)
		}
		tt.writesNothing("without the patch")
	})
}

// Each kind of each component, and nothing but what was asked for.
func TestEveryKindOfEveryComponentCanBePatched(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, whole)
	tt.settle()
	before, pods := tt.contents(), tt.podUIDs()
	var patches []controlplanev1.Patch
	wanted := map[string]bool{}
	for name, object := range tt.generated() {
		kind, _, _ := strings.Cut(name, " ")
		component := object.GetLabels()[names.ComponentLabel]
		if kind == "Secret" || kind == "ControllerRevision" {
			continue
		}
		wanted[name] = true
		if target := patchOf(component, kind, `{"metadata": {"annotations": {"example/a": "b"}, "labels": {"example/c": "d"}}}`); !slices.Contains(patches, target) {
			patches = append(patches, target)
		}
	}
	if len(patches) != 15 {
		t.Errorf("there are %d kinds of components: %v", len(patches), patches)
	}
	tt.patch(patches...)
	for name, object := range tt.generated() {
		if is := object.GetAnnotations()["example/a"] == "b" && object.GetLabels()["example/c"] == "d"; is != wanted[name] {
			t.Errorf("that %s is patched is %t", name, is)
		}
	}
	for name, now := range tt.contents() {
		if !cmp.Equal(before[name]["spec"], now["spec"]) {
			t.Errorf("the spec of %s changed too", name)
		}
	}
	tt.writesNothing("with patches")
	tt.patch()
	if diff := cmp.Diff(before, tt.contents()); diff != "" {
		t.Errorf("without patches it is not as before (-before +after):\n%s", diff)
	}
	if now := tt.podUIDs(); !maps.Equal(pods, now) {
		t.Errorf("pods were %v and are %v", pods, now)
	}
}

func TestAddonsInTheTenantCanBePatched(t *testing.T) {
	tt := newTenantTest(t, single)
	tt.settle()
	dns := func() *appsv1.Deployment {
		d := &appsv1.Deployment{}
		if err := environment.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "coredns"}, d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := content(t, dns())
	tt.patch(patchOf("coredns", "Deployment", `
metadata: {annotations: {example/owner: platform}}
spec: {template: {spec: {containers: [{name: coredns, env: [{name: GOGC, value: "50"}]}]}}}`))
	if d := dns(); d.Annotations["example/owner"] != "platform" || len(d.Spec.Template.Spec.Containers[0].Env) != 1 {
		t.Errorf("it is %+v", d)
	}
	tt.writesNothing("with a patch")
	tt.patch()
	if diff := cmp.Diff(before, content(t, dns())); diff != "" {
		t.Errorf("without the patch it is not as before (-before +after):\n%s", diff)
	}
}

// storeRefused stores what the webhooks of this version refuse, as one of an older one may have.
func (tt *tenantTest) storeRefused(patches ...controlplanev1.Patch) {
	tt.t.Helper()
	back, err := environment.WithoutWebhooks(tt.t.Context(), tt.key.Namespace)
	if err != nil {
		tt.t.Fatal(err)
	}
	edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Patches = patches })
	if err := back(tt.t.Context()); err != nil {
		tt.t.Fatal(err)
	}
}

func TestARunningTenantOutlivesAPatchThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, refused := range sample.Of(t, 2, []struct {
		name  string
		patch controlplanev1.Patch
		// says is a part of the condition's message, beside the place of the patch.
		says string
	}{
		{"of a workload", patchOf(names.KubeScheduler, "Deployment", "spec: {replicas: 5}"), "Deployment of kube-scheduler: spec.replicas cannot be patched: set spec.kubeScheduler.replicas"},
		{"of an etcd member", patchOf(names.EtcdData, "StatefulSet", "spec: {replicas: 5}"), "StatefulSet of etcd-data: spec.replicas cannot be patched"},
		{"of etcd's files", patchOf(names.EtcdData, "ConfigMap", "immutable: true"), "ConfigMap of etcd-data: immutable cannot be patched"},
		{"of Services", patchOf(names.KubeAPIServer, "Service", "spec: {type: NodePort}"), "Service of kube-apiserver: spec cannot be patched"},
		{"of an addon", patchOf("coredns", "Deployment", "spec: {replicas: 5}"), "Deployment of coredns: spec.replicas cannot be patched: set spec.addons.coreDNS.replicas"},
	}) {
		t.Run(refused.name, func(t *testing.T) {
			tt := newTenantTest(t, single)
			tt.settle()
			good := patchOf(names.KubeScheduler, "Deployment", "metadata: {annotations: {example/a: b}}")
			tt.patch(good)
			before, pods := tt.contents(), tt.podUIDs()
			tt.storeRefused(good, refused.patch)
			tt.settle()
			reconciled := conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition)
			if reconciled.Status != metav1.ConditionFalse ||
				!strings.Contains(reconciled.Message, "spec.patches[1]: ") || !strings.Contains(reconciled.Message, refused.says) {
				t.Errorf("it says %v", reconciled)
			}
			if !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) {
				t.Errorf("it is not available: %v", conditions.Get(tt.controlPlane(), conditionsv1.AvailableCondition))
			}
			// What is edited or deleted comes back, by what is stored.
			edit(t, tt.inNamespace("blue-kube-scheduler"), &appsv1.Deployment{}, func(d *appsv1.Deployment) {
				delete(d.Annotations, "example/a")
				d.Spec.Template.Spec.NodeSelector["rack"] = "b"
			})
			tt.delete(tt.generated()["StatefulSet blue-etcd-data"], tt.generated()["Service blue-kube-apiserver"])
			tt.settle()
			if diff := cmp.Diff(before, tt.contents()); diff != "" {
				t.Errorf("it is not as before (-before +after):\n%s", diff)
			}
			tt.writesNothing("with a patch that is refused")

			tt.patch(good)
			if diff := cmp.Diff(before, tt.contents()); diff != "" {
				t.Errorf("with the patch removed it is not as before (-before +after):\n%s", diff)
			}
			if !conditions.IsTrue(tt.controlPlane(), conditionsv1.ReconciledCondition) {
				t.Errorf("it says %v", conditions.Get(tt.controlPlane(), conditionsv1.ReconciledCondition))
			}
			if now := tt.podUIDs(); !maps.Equal(pods, now) {
				t.Errorf("pods were %v and are %v", pods, now)
			}
		})
	}
}

func TestNothingIsMadeWithAPatchThatIsRefused(t *testing.T) {
	t.Parallel()
	tt := newTenantTest(t, single)
	tt.storeRefused(patchOf(names.KubeScheduler, "Deployment", "spec: {replicas: 5}"))
	tt.settle()
	available := conditions.Get(tt.controlPlane(), conditionsv1.AvailableCondition)
	if available.Status != metav1.ConditionFalse || available.Reason != conditionsv1.InvalidSpecReason || !strings.Contains(available.Message, "set spec.kubeScheduler.replicas") {
		t.Errorf("it says %v", available)
	}
	if made := tt.objects(); len(made) > 0 {
		t.Errorf("there are %v", kindsAndNames(made))
	}
	tt.patch()
	if !conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) {
		t.Error("without the patch it is not made")
	}
}
