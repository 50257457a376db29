package operator

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
)

func TestOnlyTheVolumeOfTheRemovedMemberIsDeleted(t *testing.T) {
	const request = "delete PersistentVolumeClaim kok-data-blue-etcd-data-1"
	for name, test := range map[string]struct {
		is    func(t *testing.T, e *losingEtcd)
		fails error
		// left is true when a claim is there afterwards.
		left bool
		says string
	}{
		"it is left": {is: func(*testing.T, *losingEtcd) {}, says: "deleted the volume of removed member blue-etcd-data-1"},
		"it is another one by now": {is: func(t *testing.T, e *losingEtcd) {
			e.renew(t, &corev1.PersistentVolumeClaim{}, "kok-data-blue-etcd-data-1", func(o client.Object) { o.SetUID("new") })
		}, left: true, says: "deleted the volume of removed member blue-etcd-data-1"},
		"it may not be deleted": {is: func(*testing.T, *losingEtcd) {}, fails: errRefused, left: true,
			says: "delete team/kok-data-blue-etcd-data-1 of a removed etcd member: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			e.health.Members = e.health.Members[:1]
			e.pods, e.claims = e.pods[:1], e.claims[:2]
			c := e.cluster(t)
			c.Input.Spec.Etcd.Data.Replicas = ptr.To[int32](1)
			e.before = func(is string) error {
				if is != request {
					return nil
				}
				test.is(t, e)
				return test.fails
			}
			_, says := c.step(t.Context(), e.health, func(ctx context.Context, health *etcd.Health) (decision, error) {
				return c.decideMembers(ctx, health, nil)
			})
			if says != test.says || !slices.Equal(e.writes, []string{request}) {
				t.Errorf("it writes %q and says %q", e.writes, says)
			}
			err := e.host.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "kok-data-blue-etcd-data-1"}, &corev1.PersistentVolumeClaim{})
			if (err == nil) != test.left {
				t.Errorf("afterwards the claim is there: %v", err)
			}
		})
	}
}
