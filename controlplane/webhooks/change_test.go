package webhooks

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

func TestTheNextMinorWaitsUntilItIsKnownWhatRuns(t *testing.T) {
	type edit = func(*controlplanev1.KOKControlPlane)
	made := func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Hosting.Ports.First = 20000
		c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "10.250.1.1", Port: 6443}
	}
	onPodNetwork := func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
		c.Spec.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "10.250.1.1", Port: 6443}
	}
	founded := func(is bool) edit {
		return func(c *controlplanev1.KOKControlPlane) {
			for _, cluster := range []string{"data", "events"} {
				c.Status.Etcd = append(c.Status.Etcd, controlplanev1.EtcdClusterStatus{Name: cluster, Bootstrapped: &is})
			}
		}
	}
	running := func(list ...string) edit {
		return func(c *controlplanev1.KOKControlPlane) {
			for _, version := range list {
				c.Status.Versions = append(c.Status.Versions, clusterv1.StatusVersion{Version: version})
			}
		}
	}
	unavailable := func(reason string) edit {
		return func(c *controlplanev1.KOKControlPlane) {
			c.Status.Conditions = []metav1.Condition{{Type: conditionsv1.AvailableCondition, Status: metav1.ConditionFalse, Reason: reason}}
		}
	}
	const (
		unknown  = "status.versions is empty, so that an upgrade to v1.35.4 may still be under way; wait until it holds v1.35.4 alone or, if the control plane was never made, delete it and create it with v1.36.3"
		underWay = "the upgrade to v1.35.4 is still under way, some components run v1.34.1"
	)
	for name, tc := range map[string]struct {
		edits []edit
		to    string
		want  string
	}{
		"it was just created":                            {nil, "v1.36.3", ""},
		"it was just created, with an endpoint":          {[]edit{func(c *controlplanev1.KOKControlPlane) { made(c); c.Spec.Hosting.Ports.First = 0 }}, "v1.36.3", ""},
		"its etcd is being founded":                      {[]edit{made, founded(false)}, "v1.36.3", ""},
		"it was refused, and nothing runs":               {[]edit{onPodNetwork, unavailable(conditionsv1.InvalidSpecReason)}, "v1.36.3", ""},
		"it was refused, with ports of the user":         {[]edit{made, unavailable(conditionsv1.InvalidSpecReason)}, "v1.36.3", ""},
		"it was refused, and its etcd has members since": {[]edit{made, founded(true), unavailable(conditionsv1.InvalidSpecReason)}, "v1.36.3", unknown},
		"its host cluster has no kubeconfig yet":         {[]edit{onPodNetwork, unavailable(conditionsv1.InvalidHostKubeconfigReason)}, "v1.36.3", unknown},
		"its Cluster names another control plane":        {[]edit{made, unavailable(conditionsv1.NotReferencedReason)}, "v1.36.3", unknown},
		"it was moved": {[]edit{made}, "v1.36.3", unknown},
		"it was moved, and only its controller was there":        {[]edit{made, func(c *controlplanev1.KOKControlPlane) { c.Status.ObservedGeneration = 1 }}, "v1.36.3", unknown},
		"it was moved, on the pod network":                       {[]edit{onPodNetwork}, "v1.36.3", unknown},
		"it was moved, and its etcd is found to have members":    {[]edit{made, founded(true)}, "v1.36.3", unknown},
		"it was moved, and goes to another patch version":        {[]edit{made}, "v1.35.5", ""},
		"it runs one version":                                    {[]edit{made, founded(true), running("v1.35.4")}, "v1.36.3", ""},
		"it runs two":                                            {[]edit{made, founded(true), running("v1.34.1", "v1.35.4")}, "v1.36.3", underWay},
		"it runs two patch versions":                             {[]edit{made, founded(true), running("v1.35.3", "v1.35.4")}, "v1.36.3", ""},
		"it was moved, and is to go where no control plane goes": {[]edit{made}, "v1.37.0", "cannot skip minors from v1.35.4"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := controlPlane(func(s *controlplanev1.KOKControlPlaneSpec) { s.Version = "v1.35.4" })
			for _, edit := range tc.edits {
				edit(before)
			}
			after := before.DeepCopy()
			after.Spec.Version = tc.to
			errs := validateVersionChange(before, after, versions.BuiltIn(), field.NewPath("spec", "version"))
			if tc.want == "" {
				g.Expect(errs).To(BeEmpty())
			} else {
				g.Expect(errs).To(ConsistOf(MatchError(ContainSubstring(tc.want))))
			}
		})
	}
}

func TestMembersOfEtcdChangeOnceTheirClusterHasFormed(t *testing.T) {
	with := func(data, events int32) *controlplanev1.KOKControlPlane {
		c := &controlplanev1.KOKControlPlane{}
		c.Spec.Etcd.Data.Replicas, c.Spec.Etcd.Events.Replicas = &data, &events
		return c
	}
	inData := func(c *controlplanev1.KOKControlPlane) *controlplanev1.KOKControlPlane {
		c.Spec.Etcd.Events.Mode = controlplanev1.EtcdEventsInData
		return c
	}
	for name, test := range map[string]struct {
		formed []string
		after  *controlplanev1.KOKControlPlane
		want   []string
	}{
		"nothing changes before they have formed":   {after: with(3, 3)},
		"data grows before it has formed":           {formed: []string{"events"}, after: with(5, 3), want: []string{"spec.etcd.data.replicas"}},
		"events shrinks before it has formed":       {formed: []string{"data"}, after: with(3, 1), want: []string{"spec.etcd.events.replicas"}},
		"both change before they have formed":       {after: with(1, 5), want: []string{"spec.etcd.data.replicas", "spec.etcd.events.replicas"}},
		"data changes when it has formed":           {formed: []string{"data"}, after: with(1, 3)},
		"both change when they have formed":         {formed: []string{"data", "events"}, after: with(1, 7)},
		"events are in data, and count for nothing": {formed: []string{"data"}, after: inData(with(3, 1))},
	} {
		t.Run(name, func(t *testing.T) {
			before := with(3, 3)
			for _, cluster := range []string{"data", "events"} {
				before.Status.Etcd = append(before.Status.Etcd, controlplanev1.EtcdClusterStatus{Name: cluster, Bootstrapped: ptr.To(false)})
			}
			for i := range before.Status.Etcd {
				for _, formed := range test.formed {
					if before.Status.Etcd[i].Name == formed {
						before.Status.Etcd[i].Bootstrapped = ptr.To(true)
					}
				}
			}
			errs := validateMembersChange(before, test.after, field.NewPath("spec", "etcd"))
			if len(errs) != len(test.want) {
				t.Fatalf("got %v, want %v", errs, test.want)
			}
			for i, err := range errs {
				if err.Field != test.want[i] {
					t.Errorf("got %v, want %s", err, test.want[i])
				}
			}
		})
	}
}
