package status

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// apiServersAre makes the API servers such as a release renders them.
func (seen *Observation) apiServersAre(rendered *corev1.PodTemplateSpec, only ...int) {
	pods := seen.Pods[names.KubeAPIServer]
	if len(only) == 0 {
		only = []int{0, 1, 2}
	}
	for _, i := range only {
		pods[i].Annotations, pods[i].Spec.InitContainers = rendered.Annotations, rendered.Spec.InitContainers
	}
}

// renderedAPIServer is the pod template of API servers with konnectivity in a mode.
func renderedAPIServer(t *testing.T, mode controlplanev1.AddonMode) *corev1.PodTemplateSpec {
	t.Helper()
	spec := controlplanev1.KOKControlPlaneSpec{Version: "v1.36.3"}
	spec.Addons.Konnectivity.Mode = mode
	in, _, err := rendering.Sample(spec, versions.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kubeapiserver.Component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(object client.Object) bool { return patches.PodTemplate(object) != nil })
	return patches.PodTemplate(objects[i])
}

func TestFinding2TheConditionTellsWhoseAPIServersDialForTheirTenants(t *testing.T) {
	confined, open := renderedAPIServer(t, controlplanev1.AddonManaged), renderedAPIServer(t, controlplanev1.AddonNone)
	older := confined.DeepCopy()
	delete(older.Annotations, kubeapiserver.EgressAnnotation)
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	const managed, none = controlplanev1.AddonManaged, controlplanev1.AddonNone

	for name, test := range map[string]struct {
		mode controlplanev1.AddonMode
		is   func(*Input, *Observation)
		want expectation
	}{
		"all are confined": {managed, func(_ *Input, seen *Observation) { seen.apiServersAre(confined) }, expectation{status: yes, reason: "Confined"}},
		"konnectivity is switched off": {none, func(_ *Input, seen *Observation) { seen.apiServersAre(open) },
			expectation{status: no, reason: "KonnectivityOff", says: []string{"kube-apiserver dials what the tenant's administrators name", "set spec.addons.konnectivity.mode to Managed"}}},
		"nobody ever said how it is": {"", func(_ *Input, seen *Observation) { seen.apiServersAre(open) },
			expectation{status: no, reason: "KonnectivityOff", says: []string{"set spec.addons.konnectivity.mode to Managed"}}},
		"it is switched off, and pods are not replaced yet": {none, func(_ *Input, seen *Observation) { seen.apiServersAre(confined) },
			expectation{status: no, reason: "KonnectivityOff", says: []string{"set spec.addons.konnectivity.mode"}}},
		"a node port leaves no way": {none, func(in *Input, seen *Observation) {
			seen.apiServersAre(open)
			in.ControlPlane.Spec.Hosting.Exposure.Type = controlplanev1.ExposureNodePort
		}, expectation{status: no, reason: "NodePortExposure", says: []string{"spec.hosting.exposure.type NodePort", "LoadBalancer or on the host network, or accept it"}, never: []string{"set spec.addons"}}},
		"all are as an older release rendered them": {managed, func(_ *Input, seen *Observation) { seen.apiServersAre(older) },
			expectation{status: no, reason: "OlderRendering", says: []string{"dials webhooks that have a URL", "set spec.rollout.after"}}},
		"one is as an older release rendered it": {managed, func(_ *Input, seen *Observation) {
			seen.apiServersAre(confined)
			seen.apiServersAre(older, 1)
		}, expectation{status: no, reason: "OlderRendering", says: []string{"set spec.rollout.after"}}},
		"the others are being replaced": {managed, func(_ *Input, seen *Observation) {
			seen.apiServersAre(older)
			seen.apiServersAre(confined, 2)
			seen.Workloads[names.KubeAPIServer].Updated = 1
		}, expectation{status: no, reason: "RollingOut", says: []string{"1 of 3 API servers are confined"}}},
		"the last one stops": {managed, func(_ *Input, seen *Observation) {
			seen.apiServersAre(confined)
			seen.apiServersAre(older, 1)
			seen.Pods[names.KubeAPIServer][1].DeletionTimestamp = ptr.To(metav1.Now())
		}, expectation{status: no, reason: "RollingOut", says: []string{"2 of 3 API servers are confined"}}},
		"one that has ended dials nobody": {managed, func(_ *Input, seen *Observation) {
			seen.apiServersAre(confined)
			seen.apiServersAre(open, 1)
			seen.Pods[names.KubeAPIServer][1].Status.Phase = corev1.PodFailed
		}, expectation{status: yes, reason: "Confined"}},
		"a change to Managed waits": {managed, func(in *Input, seen *Observation) {
			seen.apiServersAre(open)
			in.end(names.KubeAPIServer, flow.Waiting("kube-apiserver takes no change while spec.patches are refused"))
		}, expectation{status: no, reason: "Waiting", says: []string{"kube-apiserver dials", "takes no change while spec.patches are refused"}}},
		"no API server is there yet": {managed, func(in *Input, seen *Observation) {
			seen.Pods[names.KubeAPIServer] = nil
			in.end(names.EtcdData, flow.Waiting("etcd-data has 0 of 3 pods ready and needs 2"))
		}, expectation{status: unknown, reason: "Waiting", says: []string{"etcd-data has 0 of 3"}}},
		"a host node is away, and what runs there is confined": {managed, func(_ *Input, seen *Observation) {
			seen.apiServersAre(confined)
			seen.lose("n1")
		}, expectation{status: yes, reason: "Confined"}},
	} {
		t.Run(name, func(t *testing.T) {
			in, seen := settledInput(), settled()
			in.ControlPlane.Spec.Addons.Konnectivity.Mode = test.mode
			test.is(in, seen)
			expect(t, egressConfined(in, seen), test.want)
		})
	}
}

// An open tenant works: the provider's operators decide whether they accept it.
func TestFinding2WhatIsNotConfinedIsAvailableAllTheSame(t *testing.T) {
	in := settledInput()
	Set(in, settled())
	if c := conditions.Get(in.ControlPlane, conditionsv1.EgressConfinedCondition); c == nil || c.Status != metav1.ConditionFalse {
		t.Fatalf("it is %v", c)
	}
	for _, name := range []string{clusterv1.AvailableCondition, conditionsv1.ReconciledCondition, conditionsv1.ControlPlaneComponentsHealthyCondition} {
		if !conditions.IsTrue(in.ControlPlane, name) {
			t.Errorf("%s is %v", name, conditions.Get(in.ControlPlane, name))
		}
	}
}
