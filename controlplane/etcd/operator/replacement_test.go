package operator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
)

// recoveries is how many replacements have begun in this etcd, as its metric counts them.
func recoveries() float64 {
	return testutil.ToFloat64(Recoveries.WithLabelValues("team", "blue", "data"))
}

// lost has the second member without its volume.
func (e *losingEtcd) lost() {
	e.down(1)
	e.claims[1].Status.Phase = corev1.ClaimLost
}

// leaving has a member that works, on a host node that is out of service.
func (e *losingEtcd) leaving(i int) {
	e.cordoned = append(e.cordoned, e.pods[i].Name)
	e.nodes[i].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
}

// records are those that the Services of members have now, by their names.
func (e *losingEtcd) records(t *testing.T) map[string]recovery.Replacement {
	t.Helper()
	services := &corev1.ServiceList{}
	if err := e.host.List(t.Context(), services); err != nil {
		t.Fatal(err)
	}
	records := map[string]recovery.Replacement{}
	for _, service := range services.Items {
		if raw := service.Annotations[recovery.Annotation]; raw != "" {
			record := recovery.Replacement{}
			if err := json.Unmarshal([]byte(raw), &record); err != nil {
				t.Fatal(err)
			}
			records[service.Name] = record
		}
	}
	return records
}

// told are the Events of the control plane, in their order.
func (e *losingEtcd) told() []string {
	var told []string
	for len(e.events.Events) > 0 {
		told = append(told, <-e.events.Events)
	}
	return told
}

func TestEachStepOfAReplacement(t *testing.T) {
	const at1 = "member blue-etcd-data-1 on host node n1: "
	const rest = "what is left of it must go before it can join again: "
	for name, test := range map[string]struct {
		is      func(*losingEtcd)
		writes  string
		changes string
		says    string
		record  recovery.Replacement
	}{
		"it begins": {is: func(e *losingEtcd) { e.lost() }, writes: "patch Service blue-etcd-data-1", says: at1 + "its volume is gone: it is replaced",
			record: recovery.Replacement{Of: 101, Volume: "claim-of-blue-etcd-data-1", Begun: now, Try: 1}},
		"it begins again": {is: func(e *losingEtcd) {
			e.lost()
			e.record(t, 1, recovery.Replacement{Of: 1, Volume: "first", Begun: now.Add(-time.Hour), Try: 1})
		}, writes: "patch Service blue-etcd-data-1", says: at1 + "its volume is gone: it is replaced",
			record: recovery.Replacement{Of: 101, Volume: "claim-of-blue-etcd-data-1", Begun: now, Try: 2}},
		"it begins where data goes with pods": {is: func(e *losingEtcd) {
			e.storage, e.claims = controlplanev1.EtcdStorageEmptyDir, nil
			e.down(1)
			e.saw(1, facts.Empty, 2)
		}, writes: "patch Service blue-etcd-data-1", says: at1 + "its data directory is empty: it is replaced",
			record: recovery.Replacement{Of: 101, Volume: "blue-etcd-data-1", Begun: now, Try: 1}},
		"it leads": {is: func(e *losingEtcd) {
			e.leaving(0)
			e.record(t, 0, recovery.Replacement{Of: 100, Volume: "claim-of-blue-etcd-data-0", Begun: now, Try: 1})
		}, changes: "MoveLeader blue-etcd-data-1", says: "member blue-etcd-data-0 on host node n0: its host node is out of service: another member leads now"},
		"it has begun":       {is: func(e *losingEtcd) { e.begun(t) }, changes: "Remove blue-etcd-data-1", says: at1 + "its volume is gone: it is removed"},
		"its volume is left": {is: func(e *losingEtcd) { e.removed(t) }, writes: "delete PersistentVolumeClaim kok-data-blue-etcd-data-1", says: "member blue-etcd-data-1 on host node n1: " + rest + "its volume is deleted"},
		"its pod is left":    {is: func(e *losingEtcd) { e.removed(t); terminating(&e.claims[1]) }, writes: "delete Pod blue-etcd-data-1", says: at1 + rest + "its pod is deleted"},
		"its pod came early": {is: (*losingEtcd).early, writes: "delete Pod blue-etcd-data-1",
			says: at1 + "etcd failed in its pod before it could join, and kubelet waits before the next try: its pod is deleted"},
		"its data is looked at": {is: func(e *losingEtcd) {
			e.down(1)
			e.saw(1, facts.Present, 5)
			e.pods[1].Status.InitContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(now.Add(-time.Hour))
		}, writes: "delete Pod blue-etcd-data-1", says: at1 + "etcd fails to start: its pod is deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			c := e.cluster(t)
			before, counted := e.records(t), recoveries()
			report := &Report{Health: e.health}
			acted, blank := c.recoverMembers(t.Context(), report)
			if !acted || len(blank) > 0 || report.Recovery != test.says || report.NeedsDecision {
				t.Errorf("acted: %t, blank are %v; it says %q, a person must decide: %t", acted, blank, report.Recovery, report.NeedsDecision)
			}
			if strings.Join(e.writes, ", ") != test.writes || strings.Join(e.changes, ", ") != test.changes {
				t.Errorf("it writes %q to the host cluster, and to etcd %q", e.writes, e.changes)
			}
			if told := e.told(); !slices.Equal(told, []string{"Normal EtcdMemberLost etcd-data: " + test.says}) {
				t.Errorf("Events are %q", told)
			}
			begins := 0.
			if test.record != (recovery.Replacement{}) {
				before[podName("etcd-data", 1)], begins = test.record, 1
			}
			if records := e.records(t); !gocmp.Equal(records, before) {
				t.Errorf("records differ from what was expected:\n%s", gocmp.Diff(before, records))
			}
			if got := recoveries() - counted; got != begins {
				t.Errorf("%v replacements are counted", got)
			}
		})
	}
}

// A step is about the object that was seen. Whatever is there by now stays, and what a step cannot do is said.
func TestAStepOfAReplacementMeetsAnotherHand(t *testing.T) {
	for name, test := range map[string]struct {
		is func(*losingEtcd)
		// request is the write before which another hand acts, or that ends with an error.
		request string
		hand    func(t *testing.T, e *losingEtcd)
		refused error
		// fails is what the report says; empty for a step that counts as taken.
		fails string
	}{
		"the Service was changed": {is: func(e *losingEtcd) { e.lost() }, request: "patch Service blue-etcd-data-1", hand: func(t *testing.T, e *losingEtcd) {
			e.renew(t, &corev1.Service{}, "blue-etcd-data-1", func(o client.Object) { o.SetLabels(map[string]string{"is": "new"}) })
		}, fails: "note on Service team/blue-etcd-data-1 that its member is replaced: "},
		"the Service is gone": {is: func(e *losingEtcd) { e.lost() }, request: "patch Service blue-etcd-data-1", hand: func(t *testing.T, e *losingEtcd) {
			e.remove(t, &corev1.Service{}, "blue-etcd-data-1")
		}, fails: "note on Service team/blue-etcd-data-1 that its member is replaced: "},
		"the Service may not be changed": {is: func(e *losingEtcd) { e.lost() }, request: "patch Service blue-etcd-data-1", refused: errRefused,
			fails: "note on Service team/blue-etcd-data-1 that its member is replaced: connection refused"},
		"the volume is another one": {is: func(e *losingEtcd) { e.removed(t) }, request: "delete PersistentVolumeClaim kok-data-blue-etcd-data-1", hand: func(t *testing.T, e *losingEtcd) {
			e.renew(t, &corev1.PersistentVolumeClaim{}, "kok-data-blue-etcd-data-1", func(o client.Object) { o.SetUID("new") })
		}},
		"the volume is gone": {is: func(e *losingEtcd) { e.removed(t) }, request: "delete PersistentVolumeClaim kok-data-blue-etcd-data-1", hand: func(t *testing.T, e *losingEtcd) {
			e.remove(t, &corev1.PersistentVolumeClaim{}, "kok-data-blue-etcd-data-1")
		}},
		"the volume may not be deleted": {is: func(e *losingEtcd) { e.removed(t) }, request: "delete PersistentVolumeClaim kok-data-blue-etcd-data-1", refused: errRefused,
			fails: "delete team/kok-data-blue-etcd-data-1 of a lost etcd member: connection refused"},
		"the pod is another one": {is: func(e *losingEtcd) { e.removed(t); terminating(&e.claims[1]) }, request: "delete Pod blue-etcd-data-1", hand: func(t *testing.T, e *losingEtcd) {
			e.renew(t, &corev1.Pod{}, "blue-etcd-data-1", func(o client.Object) { o.SetUID("new") })
		}},
		"the pod is gone": {is: func(e *losingEtcd) { e.removed(t); terminating(&e.claims[1]) }, request: "delete Pod blue-etcd-data-1", hand: func(t *testing.T, e *losingEtcd) {
			e.remove(t, &corev1.Pod{}, "blue-etcd-data-1")
		}},
		"the pod may not be deleted": {is: func(e *losingEtcd) { e.removed(t); terminating(&e.claims[1]) }, request: "delete Pod blue-etcd-data-1", refused: errRefused,
			fails: "delete team/blue-etcd-data-1 of a lost etcd member: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			c := e.cluster(t)
			var left []string
			e.before = func(request string) error {
				if request == test.request && test.hand != nil {
					test.hand(t, e)
					left = e.objects(t)
				}
				if request == test.request {
					return test.refused
				}
				return nil
			}
			report, records, counted := &Report{Health: e.health}, e.records(t), recoveries()
			acted, _ := c.recoverMembers(t.Context(), report)
			if acted != (test.fails == "") || !acted && !strings.HasPrefix(report.Recovery, test.fails) {
				t.Errorf("acted: %t; it says %q", acted, report.Recovery)
			}
			if !slices.Equal(e.writes, []string{test.request}) || len(e.changes) > 0 {
				t.Errorf("it writes %q to the host cluster, and to etcd %q", e.writes, e.changes)
			}
			if there := e.objects(t); test.hand != nil && !slices.Equal(there, left) || !gocmp.Equal(e.records(t), records) {
				t.Errorf("there are %q and the records %+v", there, e.records(t))
			}
			if told := e.told(); len(told) > 0 != acted || recoveries() != counted {
				t.Errorf("Events are %q, and %v more replacements are counted", told, recoveries()-counted)
			}
		})
	}
}

// remove deletes an object as another hand does.
func (e *losingEtcd) remove(t *testing.T, object client.Object, name string) {
	t.Helper()
	object.SetNamespace("team")
	object.SetName(name)
	if err := e.host.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// renew has another hand replace an object by one with the same name.
func (e *losingEtcd) renew(t *testing.T, object client.Object, name string, is func(client.Object)) {
	t.Helper()
	if err := e.host.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: name}, object); err != nil {
		t.Fatal(err)
	}
	is(object)
	object.SetResourceVersion("")
	e.remove(t, object.DeepCopyObject().(client.Object), name)
	if err := e.host.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// objects are the pods, volume claims and Services that are there, each with its UID and version.
func (e *losingEtcd) objects(t *testing.T) []string {
	t.Helper()
	var there []string
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}} {
		if err := e.host.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		switch list := list.(type) {
		case *corev1.PodList:
			for _, o := range list.Items {
				there = append(there, fmt.Sprintf("pod %s %s %s", o.Name, o.UID, o.ResourceVersion))
			}
		case *corev1.PersistentVolumeClaimList:
			for _, o := range list.Items {
				there = append(there, fmt.Sprintf("claim %s %s %s", o.Name, o.UID, o.ResourceVersion))
			}
		case *corev1.ServiceList:
			for _, o := range list.Items {
				there = append(there, fmt.Sprintf("Service %s %s %s", o.Name, o.UID, o.ResourceVersion))
			}
		}
	}
	return there
}

func TestAStepOfAReplacementIsNotTaken(t *testing.T) {
	for name, test := range map[string]struct {
		is      func(*losingEtcd)
		changes string
		says    string
	}{
		"there is no Service yet": {is: func(e *losingEtcd) {
			e.lost()
			e.services = slices.Delete(e.services, 1, 2)
		}, says: "the Service of the member is not there yet"},
		"etcd does not remove it": {is: func(e *losingEtcd) {
			e.begun(t)
			e.changeFails = errRefused
		}, changes: "Remove blue-etcd-data-1", says: "connection refused"},
		"the lead does not move": {is: func(e *losingEtcd) {
			e.leaving(0)
			e.record(t, 0, recovery.Replacement{Of: 100, Volume: "claim-of-blue-etcd-data-0", Begun: now, Try: 1})
			e.changeFails = errRefused
		}, changes: "MoveLeader blue-etcd-data-1", says: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			test.is(e)
			c := e.cluster(t)
			report, counted := &Report{Health: e.health}, recoveries()
			acted, _ := c.recoverMembers(t.Context(), report)
			if acted || report.Recovery != test.says || strings.Join(e.changes, ", ") != test.changes {
				t.Errorf("acted: %t; it says %q after the changes %q", acted, report.Recovery, e.changes)
			}
			if told := e.told(); len(told) > 0 || len(e.writes) > 0 || recoveries() != counted {
				t.Errorf("Events are %q, it writes %q, and %v more replacements are counted", told, e.writes, recoveries()-counted)
			}
		})
	}
}
