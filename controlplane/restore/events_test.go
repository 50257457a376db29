package restore

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// parsed is the time of a stamp; zero for an empty one.
func parsed(t *testing.T, stamp string) (at metav1.Time) {
	t.Helper()
	if stamp == "" {
		return at
	}
	parsed, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		t.Fatal(err)
	}
	return metav1.NewTime(parsed)
}

// The time at which the controller founds the events anew by itself is in the record alone, until status has it. The later one of a person and
// of the controller counts.
func TestStatusLearnsThatTheEventsBeginAnewByThemselves(t *testing.T) {
	for name, test := range map[string]struct {
		reason, record, asked, restored string
		lost                            bool
		want                            string
	}{
		"of status only the conditions were written": {reason: conditionsv1.NotRecoveringReason, record: second, want: second},
		"all is well": {reason: conditionsv1.NotRecoveringReason, record: second, restored: second},
		"it was recorded, and status says nothing": {reason: conditionsv1.NeedsDecisionReason, record: second, want: second},
		"it was so before, and status has it":      {reason: conditionsv1.NeedsDecisionReason, record: second, restored: second},
		"a person asked later":                     {reason: conditionsv1.RestoringReason, record: first, asked: second},
		"a person had asked before":                {reason: conditionsv1.RestoringReason, record: second, asked: first, restored: first, want: second},
		"status was lost":                          {record: second, lost: true, want: second},
		"status was lost, and a person asked last": {record: first, asked: second, lost: true},
		"it never happened, and status was lost":   {lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := observed("a")
			c.Status.Etcd = append(c.Status.Etcd, controlplanev1.EtcdClusterStatus{Name: "events"})
			conditions.Set(c, metav1.Condition{Type: conditionsv1.EtcdRecoveringCondition, Status: metav1.ConditionTrue, Reason: test.reason})
			c.Spec.Etcd.Events.FoundAnewAt, c.Status.Etcd[1].RestoredAt = parsed(t, test.asked), parsed(t, test.restored)
			if test.lost {
				c.Status = controlplanev1.KOKControlPlaneStatus{}
			}
			cluster, host := client.ObjectKey{Namespace: "team", Name: "blue"}, fake.NewClientBuilder()
			if test.record != "" {
				host.WithObjects(&corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: names.RestoreRecord(cluster.Name)}, Data: map[string]string{EventsKey: test.record},
				})
			}
			built := host.Build()
			p, err := Read(t.Context(), &Facts{ControlPlane: c, Cluster: cluster, Host: &hostclusters.Host{Client: built, Live: built}})
			if err != nil || p.Record.Restore != "" || p.Asked() {
				t.Fatalf("%+v: %v", p, err)
			}
			events, changed := p.EventsStatus(c)
			if changed != (test.want != "") {
				t.Fatalf("got %+v, %t", events, changed)
			}
			if changed && (events.Name != "events" || rebuild.Stamp(events.Restoring.RequestedAt.Time) != test.want || !*events.Restoring.Automatic) {
				t.Errorf("got %+v", events)
			}
		})
	}
}

func TestAManagerWhoseClockIsBehindSaysSo(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	made := func(after time.Duration) metav1.ObjectMeta {
		return metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(after))}
	}
	for name, test := range map[string]struct {
		pod, claim time.Duration
		says       string
	}{
		"all is older":               {pod: -time.Hour, claim: -time.Hour},
		"a pod was made just now":    {pod: time.Second, claim: -time.Hour},
		"a pod is of the future":     {pod: time.Hour, claim: -time.Hour, says: "after 2026-03-04T06:00:00Z"},
		"a volume is of the future":  {pod: -time.Hour, claim: 2 * time.Hour, says: "after 2026-03-04T07:00:00Z"},
		"the newest of both is told": {pod: time.Hour, claim: 2 * time.Hour, says: "after 2026-03-04T07:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			err := clockBehind(newestOf([]corev1.Pod{{ObjectMeta: made(test.pod)}}, []corev1.PersistentVolumeClaim{{ObjectMeta: made(test.claim)}}), now)
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v, want %q", err, test.says)
			}
		})
	}
}

// A record that somebody spoiled must not look like none: etcd would be founded anew once more.
func TestARecordThatCannotBeReadIsNotPassedOver(t *testing.T) {
	for name, test := range map[string]struct {
		data    map[string]string
		refused bool
	}{
		"only the data were restored":         {map[string]string{RecordKey: `{"restore": "` + first + `"}`}, false},
		"only the events were founded anew":   {map[string]string{EventsKey: first}, false},
		"both were":                           {map[string]string{RecordKey: `{"restore": "` + first + `"}`, EventsKey: second}, false},
		"nothing is there":                    {nil, true},
		"the record of the data is no JSON":   {map[string]string{RecordKey: "spoiled", EventsKey: second}, true},
		"the record of the data is empty":     {map[string]string{RecordKey: "", EventsKey: second}, true},
		"the record of the events is no time": {map[string]string{RecordKey: `{"restore": "` + first + `"}`, EventsKey: "spoiled"}, true},
	} {
		record, events, err := parse(test.data)
		if (err != nil) != test.refused {
			t.Errorf("%s: got %+v, %s, %v", name, record, events, err)
		}
		if err == nil && (record.Restore == "") == (test.data[RecordKey] != "") || err == nil && events.IsZero() == (test.data[EventsKey] != "") {
			t.Errorf("%s: got %+v, %s", name, record, events)
		}
	}
}

func TestWhatIsLeftOfFormerEvents(t *testing.T) {
	at := metav1.NewTime(time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC))
	older, younger := metav1.NewTime(at.Add(-time.Minute)), metav1.NewTime(at.Add(time.Minute))
	pod := func(name string, made metav1.Time) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: made}}
	}
	claim := func(name string, made metav1.Time) corev1.PersistentVolumeClaim {
		return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: made}}
	}
	for name, test := range map[string]struct {
		pods   []corev1.Pod
		claims []corev1.PersistentVolumeClaim
		left   bool
		// deleted are the claims that the first step deletes.
		deleted string
	}{
		"nothing":                                 {},
		"all is of the new etcd":                  {[]corev1.Pod{pod("0", younger)}, []corev1.PersistentVolumeClaim{claim("0", younger)}, false, ""},
		"all is older":                            {[]corev1.Pod{pod("0", older)}, []corev1.PersistentVolumeClaim{claim("0", older)}, true, ""},
		"the pods have stopped":                   {nil, []corev1.PersistentVolumeClaim{claim("0", older), claim("1", older)}, true, "0 1"},
		"the pod was made anew after that time":   {[]corev1.Pod{pod("0", younger)}, []corev1.PersistentVolumeClaim{claim("0", older)}, true, ""},
		"a member was replaced after that time":   {[]corev1.Pod{pod("0", older), pod("1", younger)}, []corev1.PersistentVolumeClaim{claim("0", older), claim("1", younger)}, true, "1"},
		"the same, and its pods have stopped":     {nil, []corev1.PersistentVolumeClaim{claim("0", older), claim("1", younger)}, true, "1"},
		"data goes with pods, and one is younger": {[]corev1.Pod{pod("0", older), pod("1", younger)}, nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			former := formerEvents(at, test.pods, test.claims)
			var deleted []string
			host := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.DeleteOption) error {
					deleted = append(deleted, object.GetName())
					return nil
				},
			})
			if former.left() != test.left || test.left && len(former.pods) != len(test.pods) {
				t.Errorf("left is %+v", former)
			}
			if !test.left {
				return
			}
			if result, says := former.Stop(t.Context(), &Facts{Host: &hostclusters.Host{Client: host, Live: host}}); result.Err() != nil || says == "" {
				t.Errorf("it says %q: %v", says, result.Err())
			}
			if got := strings.Join(deleted, " "); got != test.deleted {
				t.Errorf("it deletes the claims %q, want %q", got, test.deleted)
			}
		})
	}
}
