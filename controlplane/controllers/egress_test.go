package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// apiServersAre makes the API servers such as a release renders them.
func (seen *observation) apiServersAre(rendered *corev1.PodTemplateSpec, only ...int) {
	pods := seen.pods[names.KubeAPIServer]
	if len(only) == 0 {
		only = []int{0, 1, 2}
	}
	for _, i := range only {
		pods[i].Annotations, pods[i].Spec.InitContainers = rendered.Annotations, rendered.Spec.InitContainers
	}
}

func TestFinding2TheConditionTellsWhoseAPIServersDialForTheirTenants(t *testing.T) {
	rendered := func(mode controlplanev1.AddonMode) *corev1.PodTemplateSpec {
		of := issue(t, "blue", "")
		of.in.Spec.Addons.Konnectivity.Mode = mode
		return podTemplateOf(t, of, kubeapiserver.Component)
	}
	confined, open := rendered(controlplanev1.AddonManaged), rendered(controlplanev1.AddonNone)
	older := confined.DeepCopy()
	delete(older.Annotations, kubeapiserver.EgressAnnotation)
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	const managed, none = controlplanev1.AddonManaged, controlplanev1.AddonNone

	for name, test := range map[string]struct {
		mode controlplanev1.AddonMode
		is   func(*scope, *observation)
		want expectation
	}{
		"all are confined": {managed, func(_ *scope, seen *observation) { seen.apiServersAre(confined) }, expectation{status: yes, reason: "Confined"}},
		"konnectivity is switched off": {none, func(_ *scope, seen *observation) { seen.apiServersAre(open) },
			expectation{status: no, reason: "KonnectivityOff", says: []string{"kube-apiserver dials what the tenant's administrators name", "set spec.addons.konnectivity.mode to Managed"}}},
		"nobody ever said how it is": {"", func(_ *scope, seen *observation) { seen.apiServersAre(open) },
			expectation{status: no, reason: "KonnectivityOff", says: []string{"set spec.addons.konnectivity.mode to Managed"}}},
		"it is switched off, and pods are not replaced yet": {none, func(_ *scope, seen *observation) { seen.apiServersAre(confined) },
			expectation{status: no, reason: "KonnectivityOff", says: []string{"set spec.addons.konnectivity.mode"}}},
		"a node port leaves no way": {none, func(s *scope, seen *observation) {
			seen.apiServersAre(open)
			s.controlPlane.Spec.Hosting.Exposure.Type = controlplanev1.ExposureNodePort
		}, expectation{status: no, reason: "NodePortExposure", says: []string{"spec.hosting.exposure.type NodePort", "LoadBalancer or on the host network, or accept it"}, never: []string{"set spec.addons"}}},
		"all are as an older release rendered them": {managed, func(_ *scope, seen *observation) { seen.apiServersAre(older) },
			expectation{status: no, reason: "OlderRendering", says: []string{"dials webhooks that have a URL", "set spec.rollout.after"}}},
		"one is as an older release rendered it": {managed, func(_ *scope, seen *observation) {
			seen.apiServersAre(confined)
			seen.apiServersAre(older, 1)
		}, expectation{status: no, reason: "OlderRendering", says: []string{"set spec.rollout.after"}}},
		"the others are being replaced": {managed, func(_ *scope, seen *observation) {
			seen.apiServersAre(older)
			seen.apiServersAre(confined, 2)
			seen.workloads[names.KubeAPIServer].updated = 1
		}, expectation{status: no, reason: "RollingOut", says: []string{"1 of 3 API servers are confined"}}},
		"the last one stops": {managed, func(_ *scope, seen *observation) {
			seen.apiServersAre(confined)
			seen.apiServersAre(older, 1)
			seen.pods[names.KubeAPIServer][1].DeletionTimestamp = ptr.To(metav1.Now())
		}, expectation{status: no, reason: "RollingOut", says: []string{"2 of 3 API servers are confined"}}},
		"one that has ended dials nobody": {managed, func(_ *scope, seen *observation) {
			seen.apiServersAre(confined)
			seen.apiServersAre(open, 1)
			seen.pods[names.KubeAPIServer][1].Status.Phase = corev1.PodFailed
		}, expectation{status: yes, reason: "Confined"}},
		"a change to Managed waits": {managed, func(s *scope, seen *observation) {
			seen.apiServersAre(open)
			s.end(names.KubeAPIServer, flow.Waiting("kube-apiserver takes no change while spec.patches are refused"))
		}, expectation{status: no, reason: "Waiting", says: []string{"kube-apiserver dials", "takes no change while spec.patches are refused"}}},
		"no API server is there yet": {managed, func(s *scope, seen *observation) {
			seen.pods[names.KubeAPIServer] = nil
			s.end(names.EtcdData, flow.Waiting("etcd-data has 0 of 3 pods ready and needs 2"))
		}, expectation{status: unknown, reason: "Waiting", says: []string{"etcd-data has 0 of 3"}}},
		"a host node is away, and what runs there is confined": {managed, func(_ *scope, seen *observation) {
			seen.apiServersAre(confined)
			seen.lose("n1")
		}, expectation{status: yes, reason: "Confined"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, seen := initializedScope(), settled()
			s.controlPlane.Spec.Addons.Konnectivity.Mode = test.mode
			test.is(s, seen)
			expect(t, egressConfined(s, seen), test.want)
		})
	}
}

// An open tenant works: the provider's operators decide whether they accept it.
func TestFinding2WhatIsNotConfinedIsAvailableAllTheSame(t *testing.T) {
	s := initializedScope()
	updateStatus(s, settled())
	if c := conditions.Get(s.controlPlane, controlplanev1.EgressConfinedCondition); c == nil || c.Status != metav1.ConditionFalse {
		t.Fatalf("it is %v", c)
	}
	for _, name := range []string{clusterv1.AvailableCondition, controlplanev1.ReconciledCondition, controlplanev1.ControlPlaneComponentsHealthyCondition} {
		if !conditions.IsTrue(s.controlPlane, name) {
			t.Errorf("%s is %v", name, conditions.Get(s.controlPlane, name))
		}
	}
}
