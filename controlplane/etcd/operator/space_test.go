package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// fullEtcd has three members whose files are as large as the quota and half empty.
func fullEtcd(edit func(*etcd.Health)) *etcd.Health {
	health := healthy()
	health.Full, health.CompactedAt, health.Alarms = true, 9, []string{"NOSPACE on blue-etcd-data-0"}
	for i := range health.Members {
		m := &health.Members[i]
		m.Started, m.Answered, m.Follows, m.Full, m.Err = true, true, true, true, errors.New("it reports alarm:NOSPACE")
		m.DatabaseSize, m.DatabaseInUse, m.DatabaseQuota = 2<<30, 1<<30, 2<<30
	}
	edit(health)
	return health
}

func TestAFullEtcdIsGivenRoom(t *testing.T) {
	for name, test := range map[string]struct {
		is func(*etcd.Health)
		// volume is the size of each volume; empty for no claim.
		volume string
		// before is true until every first member has joined.
		before bool
		want   space.Action
		says   string
	}{
		"it takes writes": {is: func(h *etcd.Health) { h.Full, h.Alarms = false, nil }},
		"it has old versions": {is: func(h *etcd.Health) {
			h.CompactedAt = 0
			for i := range h.Members {
				h.Members[i].DatabaseInUse = 2 << 30
			}
		}, want: space.Action{Kind: space.Compact}, says: "old versions of all keys are dropped"},
		"its files are large":    {is: func(*etcd.Health) {}, volume: "8Gi", want: space.Action{Kind: space.Defragment, Member: podName(names.EtcdData, 1)}, says: "blue-etcd-data-1"},
		"its volumes are small":  {is: func(*etcd.Health) {}, volume: "3Gi", says: "make the volume larger"},
		"its quota is not known": {is: func(h *etcd.Health) { h.Members[1].DatabaseQuota = 0 }, want: space.Action{Kind: space.Defragment, Member: podName(names.EtcdData, 1)}, says: "blue-etcd-data-1"},
		"its files are small": {is: func(h *etcd.Health) {
			for i := range h.Members {
				h.Members[i].DatabaseSize = 1 << 30
			}
		}, want: space.Action{Kind: space.Disarm}, says: "it takes writes again"},
		"a member does not answer": {is: func(h *etcd.Health) { h.Members[2].Answered = false }, says: "gets room when member blue-etcd-data-2 works"},
		"it does not list members": {is: func(h *etcd.Health) { h.Err = errRefused }},
		"not all have joined yet":  {is: func(*etcd.Health) {}, before: true},
		"a member that has not started joins": {is: func(h *etcd.Health) {
			h.Members[2].Learner, h.Members[2].Started, h.Members[2].Answered = true, false, false
		},
			want: space.Action{Kind: space.Defragment, Member: podName(names.EtcdData, 1)}, says: "blue-etcd-data-1"},
		"data in use fill its files": {is: func(h *etcd.Health) {
			for i := range h.Members {
				h.Members[i].DatabaseInUse = 2 << 30
			}
		}, want: space.Action{Kind: space.Defragment, Member: podName(names.EtcdData, 1)}, says: "blue-etcd-data-1"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := hostOfThree()
			for i := range int32(3) {
				if test.volume == "" {
					continue
				}
				claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
					Namespace: "team", Name: etcdcomponent.Claim(podName(names.EtcdData, i)),
					Labels: names.ComponentLabels(client.ObjectKey{Namespace: "team", Name: "blue"}, names.EtcdData),
				}}
				claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(test.volume)}
				builder.WithObjects(claim)
			}
			var done []space.Action
			var within time.Duration
			recorder := events.NewFakeRecorder(10)
			o := New(Etcd{
				Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
					return fullEtcd(test.is), nil
				},
				MakeRoom: func(ctx context.Context, action space.Action, _ map[string]etcd.Address, _ *tls.Config) error {
					deadline, _ := ctx.Deadline()
					done, within = append(done, action), time.Until(deadline)
					return nil
				},
			}, clock.RealClock{}, recorder)
			task := withKeys(t, newTask(builder.Build()))
			task.Input.Spec.Etcd.Data.QuotaBackendSize, task.AllReady, task.Bootstrapped = ptr.To(resource.MustParse("2Gi")), true, !test.before
			report := o.Run(t.Context(), task)
			if !strings.Contains(report.Space, test.says) || (report.Space == "") != (test.says == "") {
				t.Errorf("it says %q", report.Space)
			}
			if test.want.Kind == space.None {
				if len(done) > 0 {
					t.Errorf("it did %+v", done)
				}
				return
			}
			if len(done) != 1 || done[0].Kind != test.want.Kind || done[0].Member != test.want.Member {
				t.Fatalf("it did %+v", done)
			}
			if within < stepTimeout || within > etcd.RoomTimeout {
				t.Errorf("it may take %s", within)
			}
			if event := <-recorder.Events; !strings.Contains(event, reasonMadeRoom) {
				t.Errorf("the Event is %q", event)
			}
		})
	}
}

// What is free shows only once a file was written anew. So each is, once an hour, before a person is asked.
func TestAPersonIsAskedOnceEachFileWasWrittenAnew(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Now())
	var done []string
	o := New(Etcd{
		Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
			return fullEtcd(func(h *etcd.Health) {
				for i := range h.Members {
					h.Members[i].DatabaseInUse = 2 << 30
				}
			}), nil
		},
		MakeRoom: func(_ context.Context, action space.Action, _ map[string]etcd.Address, _ *tls.Config) error {
			done = append(done, string(action.Kind)+" "+action.Member)
			return nil
		},
	}, now, events.NewFakeRecorder(100))
	task := withKeys(t, newTask(hostOfThree().Build()))
	task.Input.Spec.Etcd.Data.QuotaBackendSize, task.AllReady, task.Bootstrapped = ptr.To(resource.MustParse("2Gi")), true, true
	each := []string{"Defragment blue-etcd-data-1", "Defragment blue-etcd-data-2", "Defragment blue-etcd-data-0"}
	for _, hour := range []string{"first", "second"} {
		done = nil
		report := &Report{}
		for range 6 {
			report = o.Run(t.Context(), task)
		}
		if !slices.Equal(done, each) || !strings.Contains(report.Space, "delete objects, or raise spec.etcd.data.quotaBackendSize") {
			t.Errorf("in the %s hour it did %q, and says %q", hour, done, report.Space)
		}
		now.Step(space.RewritePeriod)
	}
	o.Forget(client.ObjectKeyFromObject(task.ControlPlane))
	if len(o.rewritten.of) != 0 {
		t.Errorf("it knows of %v", o.rewritten.of)
	}
}
