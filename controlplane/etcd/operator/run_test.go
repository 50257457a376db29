package operator

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Of five members the first two are given up, and the fourth is not listed.
func TestAMemberIsMissingWhileItShouldHaveAPod(t *testing.T) {
	for end, missing := range map[int]bool{5: true, 4: true, 3: false} {
		task := newTask(fake.NewClientBuilder().Build())
		task.Input.Spec.Etcd.Data.Replicas, task.PodsEnd = ptr.To[int32](5), end
		reached := Etcd{Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
			health := &etcd.Health{}
			for i := range int32(5) {
				health.Members = append(health.Members, etcd.Member{Name: podName(names.EtcdData, i), Listed: i == 2 || i == 4})
			}
			return health, nil
		}}
		health := New(reached, clocktesting.NewFakeClock(time.Now()), events.NewFakeRecorder(10)).cluster(t.Context(), task).observe(t.Context())
		got := false
		for _, m := range health.Members {
			got = got || m.Name == podName(names.EtcdData, 3)
		}
		if got != missing {
			t.Errorf("while pods end before %d it is among %+v", end, health.Members)
		}
	}
}
