package webhooks

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestTheNumberOfAPIServersIsDefaulted(t *testing.T) {
	const deployment, daemonSet = controlplanev1.APIServerDeployment, controlplanev1.APIServerDaemonSet
	with := func(workload controlplanev1.APIServerWorkload, replicas *int32) *controlplanev1.KOKControlPlane {
		c := &controlplanev1.KOKControlPlane{}
		c.Spec.KubeAPIServer.Workload, c.Spec.Replicas = workload, replicas
		return c
	}
	for name, tc := range map[string]struct {
		before, after *controlplanev1.KOKControlPlane
		want          *int32
	}{
		"a new Deployment gets two":                              {nil, with(deployment, nil), ptr.To[int32](2)},
		"a new Deployment keeps what it says":                    {nil, with(deployment, ptr.To[int32](1)), ptr.To[int32](1)},
		"a new DaemonSet gets none":                              {nil, with(daemonSet, nil), nil},
		"a Deployment whose number is removed keeps the number":  {with(deployment, ptr.To[int32](5)), with(deployment, nil), ptr.To[int32](5)},
		"a Deployment whose number is another gets that":         {with(deployment, ptr.To[int32](5)), with(deployment, ptr.To[int32](1)), ptr.To[int32](1)},
		"a Deployment that never had a number gets two":          {with(deployment, nil), with(deployment, nil), ptr.To[int32](2)},
		"a DaemonSet that is changed gets none":                  {with(daemonSet, nil), with(daemonSet, nil), nil},
		"a DaemonSet to become a Deployment gets two, if it may": {with(daemonSet, nil), with(deployment, nil), ptr.To[int32](2)},
	} {
		t.Run(name, func(t *testing.T) {
			setDefaults(t, tc.before, tc.after)
			if got := tc.after.Spec.Replicas; !ptr.Equal(got, tc.want) {
				t.Errorf("it has %d, not %d", ptr.Deref(got, 0), ptr.Deref(tc.want, 0))
			}
		})
	}
}

// setDefaults defaults an object that is created, if before is nil, or that replaces before.
func setDefaults(t *testing.T, before, after *controlplanev1.KOKControlPlane) {
	t.Helper()
	request := admission.Request{}
	request.Operation = admissionv1.Create
	if before != nil {
		raw, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		request.Operation, request.OldObject.Raw = admissionv1.Update, raw
	}
	if err := (&KOKControlPlane{}).Default(admission.NewContextWithRequest(t.Context(), request), after); err != nil {
		t.Fatal(err)
	}
}

func TestFinding2NewControlPlanesAreConfined(t *testing.T) {
	const unset, managed, none = controlplanev1.AddonMode(""), controlplanev1.AddonManaged, controlplanev1.AddonNone
	const host, nodePort, balanced = controlplanev1.ExposureType(""), controlplanev1.ExposureNodePort, controlplanev1.ExposureLoadBalancer
	with := func(exposure controlplanev1.ExposureType, mode controlplanev1.AddonMode) *controlplanev1.KOKControlPlane {
		c := &controlplanev1.KOKControlPlane{}
		c.Spec.Hosting.Exposure.Type, c.Spec.Addons.Konnectivity.Mode = exposure, mode
		return c
	}
	for name, tc := range map[string]struct {
		before, after *controlplanev1.KOKControlPlane
		want          controlplanev1.AddonMode
	}{
		"a new one on the host network gets konnectivity":              {nil, with(host, unset), managed},
		"a new one behind a load balancer gets konnectivity":           {nil, with(balanced, unset), managed},
		"a new one inside of the host cluster gets konnectivity":       {nil, with(controlplanev1.ExposureNone, unset), managed},
		"a new one at a node port has no port for it":                  {nil, with(nodePort, unset), none},
		"a new one keeps what it says":                                 {nil, with(host, none), none},
		"one that runs without stays without":                          {with(host, none), with(host, unset), none},
		"one that runs with it keeps it":                               {with(host, managed), with(host, unset), managed},
		"one that is older than the field stays without":               {with(host, unset), with(host, unset), unset},
		"one that runs without gets it when somebody says so":          {with(host, none), with(host, managed), managed},
		"one that runs with it loses it when somebody says so":         {with(host, managed), with(host, none), none},
		"one at a node port stays without, whatever else is changed":   {with(nodePort, none), with(nodePort, unset), none},
		"one at a node port that says Managed is for others to refuse": {nil, with(nodePort, managed), managed},
	} {
		t.Run(name, func(t *testing.T) {
			setDefaults(t, tc.before, tc.after)
			if got := tc.after.Spec.Addons.Konnectivity.Mode; got != tc.want {
				t.Errorf("the mode is %q, not %q", got, tc.want)
			}
		})
	}
}
