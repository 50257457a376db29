package restore

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

const (
	first  = "2026-03-04T05:00:00Z"
	second = "2026-03-04T06:00:00Z"
)

// observed is a control plane whose data etcd has a cluster ID.
func observed(clusterID string) *controlplanev1.KOKControlPlane {
	c := &controlplanev1.KOKControlPlane{}
	c.Status.Etcd = []controlplanev1.EtcdClusterStatus{{
		Name: "data", Bootstrapped: ptr.To(true), ClusterID: clusterID, Members: []controlplanev1.EtcdMemberStatus{{Name: "blue-etcd-data-0"}},
	}}
	return c
}

func TestHowFarARestoreHasCome(t *testing.T) {
	for name, test := range map[string]struct {
		p               Progress
		asked, stops, f bool
	}{
		"none is asked for":                   {p: Progress{read: true}},
		"one is asked for, and was not read":  {p: Progress{request: first}},
		"one is asked for":                    {p: Progress{request: first, read: true}, asked: true},
		"it stops what runs":                  {p: Progress{request: first, read: true, Record: rebuild.Record{Restore: first, Phase: rebuild.Stopping}}, asked: true, stops: true},
		"the new etcd is founded":             {p: Progress{request: first, read: true, Record: rebuild.Record{Restore: first, Phase: rebuild.Founding}}, asked: true, stops: true, f: true},
		"it was taken away half done":         {p: Progress{read: true, Record: rebuild.Record{Restore: first, Phase: rebuild.Founding}}, asked: true, stops: true, f: true},
		"it is over":                          {p: Progress{request: first, read: true, Record: rebuild.Record{Restore: first, Phase: rebuild.Over}}},
		"another one is asked for afterwards": {p: Progress{request: second, read: true, Record: rebuild.Record{Restore: first, Phase: rebuild.Over}}, asked: true},
		"it is over, and no longer asked for": {p: Progress{read: true, Record: rebuild.Record{Restore: first, Phase: rebuild.Over}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.p.Asked(); got != test.asked {
				t.Errorf("it is asked for: %t", got)
			}
			if got := test.p.Stops(names.KubeAPIServer); got != test.stops {
				t.Errorf("it stops API servers: %t", got)
			}
			if test.p.Stops(names.EtcdEvents) {
				t.Error("it stops the etcd with the events")
			}
			if got := test.p.Founding(); got != test.f {
				t.Errorf("etcd is being founded: %t", got)
			}
		})
	}
}

func TestStatusFollowsTheRecord(t *testing.T) {
	founding := Progress{Record: rebuild.Record{Restore: first, Phase: rebuild.Founding, ClusterID: "b"}}
	if data, changed := founding.Status(observed("a")); !changed || *data.Bootstrapped || data.Members != nil || data.Name != "data" {
		t.Errorf("while the new etcd is founded it is %+v", data)
	}
	if data, _ := founding.Status(observed("b")); !*data.Bootstrapped || len(data.Members) != 1 {
		t.Errorf("once the new etcd was seen it becomes %+v", data)
	}
	stopping := Progress{Record: rebuild.Record{Restore: first, Phase: rebuild.Stopping, Begins: &rebuild.Ask{Survivor: "m"}, Automatic: true}, automatic: &rebuild.Ask{Survivor: "m"}}
	if data, _ := stopping.Status(observed("a")); !*data.Bootstrapped || data.Restoring == nil || data.Restoring.Survivor != "m" || !ptr.Deref(data.Restoring.Automatic, false) {
		t.Errorf("while all stops it is %+v", data)
	}
	if data, changed := stopping.Status(&controlplanev1.KOKControlPlane{}); changed {
		t.Errorf("of a status that was lost it makes %+v", data)
	}
	over := Progress{Record: rebuild.Record{Restore: first, Phase: rebuild.Over, ClusterID: "b"}}
	if data, changed := over.Status(observed("b")); !changed || rebuild.Stamp(data.RestoredAt.Time) != first || !*data.Bootstrapped {
		t.Errorf("once it is over it is %+v", data)
	}
	if data, changed := over.Status(&controlplanev1.KOKControlPlane{}); changed {
		t.Errorf("of a status that was lost it makes %+v", data)
	}
}

// A request restarts no pod before it has begun. After it was carried out, members must know the former clusters for ever.
func TestWhatRenderingsKnowOfARestore(t *testing.T) {
	reduced := &controlplanev1.EtcdRestoreSpec{}
	restored := observed("b")
	restored.Status.Etcd[0].RestoredAt = metav1.Now()
	for name, test := range map[string]struct {
		p    Progress
		of   *controlplanev1.KOKControlPlane
		spec *controlplanev1.EtcdRestoreSpec
		want bool
	}{
		"none is asked for":                          {of: observed("a")},
		"a new control plane begins with a snapshot": {of: &controlplanev1.KOKControlPlane{}, spec: reduced, want: true},
		"one is asked for":                           {p: Progress{request: first}, of: observed("a"), spec: reduced},
		"one has begun":                              {p: Progress{request: first, Record: rebuild.Record{Restore: first}}, of: observed("a"), spec: reduced, want: true},
		"one is over, and no longer asked for":       {of: restored, want: true},
	} {
		if got := test.p.Rendered(test.of, test.spec); (got != nil) != test.want {
			t.Errorf("%s: renderings have %+v", name, got)
		}
	}
}
