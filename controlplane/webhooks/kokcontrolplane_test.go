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
			request := admission.Request{}
			request.Operation = admissionv1.Create
			if tc.before != nil {
				raw, err := json.Marshal(tc.before)
				if err != nil {
					t.Fatal(err)
				}
				request.Operation, request.OldObject.Raw = admissionv1.Update, raw
			}
			if err := (&KOKControlPlane{}).Default(admission.NewContextWithRequest(t.Context(), request), tc.after); err != nil {
				t.Fatal(err)
			}
			if got := tc.after.Spec.Replicas; !ptr.Equal(got, tc.want) {
				t.Errorf("it has %d, not %d", ptr.Deref(got, 0), ptr.Deref(tc.want, 0))
			}
		})
	}
}
