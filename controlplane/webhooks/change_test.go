package webhooks

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestMembersOfEtcdChangeOnceTheirClusterHasFormed(t *testing.T) {
	with := func(data, events int32) *controlplanev1.KOKControlPlane {
		c := &controlplanev1.KOKControlPlane{}
		c.Spec.Etcd.Data.Replicas, c.Spec.Etcd.Events.Replicas = &data, &events
		return c
	}
	for name, test := range map[string]struct {
		formed []string
		after  *controlplanev1.KOKControlPlane
		want   []string
	}{
		"nothing changes before they have formed": {after: with(3, 3)},
		"data grows before it has formed":         {formed: []string{"events"}, after: with(5, 3), want: []string{"spec.etcd.data.replicas"}},
		"events shrinks before it has formed":     {formed: []string{"data"}, after: with(3, 1), want: []string{"spec.etcd.events.replicas"}},
		"both change before they have formed":     {after: with(1, 5), want: []string{"spec.etcd.data.replicas", "spec.etcd.events.replicas"}},
		"data changes when it has formed":         {formed: []string{"data"}, after: with(1, 3)},
		"both change when they have formed":       {formed: []string{"data", "events"}, after: with(1, 7)},
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
