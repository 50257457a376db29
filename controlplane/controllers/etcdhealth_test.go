package controllers

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/keyrotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
)

// taskbook notes what the operator is handed, and has the reports that a test wrote.
type taskbook struct {
	tasks     map[string]*operator.Task
	reports   map[string]*operator.Report
	forgotten int
}

func newTaskbook() *taskbook {
	return &taskbook{tasks: map[string]*operator.Task{}, reports: map[string]*operator.Report{}}
}

func (b *taskbook) Operate(task *operator.Task) (*operator.Report, bool) {
	b.tasks[task.Cluster.Component] = task
	report, ok := b.reports[task.Cluster.Component]
	return report, ok
}

func (b *taskbook) Forget(client.ObjectKey) { b.forgotten++ }

// noted is what of a task has the operator begin anew, as it was when it was handed over.
type noted struct{ identity, prompt string }

func (b *taskbook) of(component string) noted {
	return noted{b.tasks[component].Identity(), b.tasks[component].Prompt()}
}

func TestTheReportOfEtcdIsWhatStatusIsMadeOf(t *testing.T) {
	notes := newTaskbook()
	r := &Reconciler{etcdOperator: notes}
	s, seen := askable(t), settled()
	reports := r.operateEtcd(s, seen.Workloads, nil)
	if !s.probing || !errors.Is(reports[names.EtcdData].Err, status.ErrNotObserved) || !errors.Is(reports[names.EtcdEvents].Err, status.ErrNotObserved) {
		t.Errorf("before the first report: asking %t, %v", s.probing, reports)
	}

	report := seen.Etcd[names.EtcdData]
	for _, component := range etcdclusters.Components {
		notes.reports[component] = report
	}
	s = askable(t)
	if reports = r.operateEtcd(s, seen.Workloads, nil); s.probing || reports[names.EtcdData] != report {
		t.Errorf("after it: asking %t, %v", s.probing, reports)
	}
}

func TestWhenTheOperatorBeginsAnew(t *testing.T) {
	for name, test := range map[string]struct {
		change           func(*scope, *status.Observation)
		identity, prompt bool
	}{
		"nothing changed":         {change: func(*scope, *status.Observation) {}},
		"it was read anew":        {change: func(s *scope, _ *status.Observation) { s.controlPlane = s.controlPlane.DeepCopy() }},
		"its members have joined": {change: func(s *scope, _ *status.Observation) { s.controlPlane.Status.Etcd[0].Bootstrapped = new(true) }, prompt: true},
		"etcd lists another": {change: func(s *scope, _ *status.Observation) {
			s.controlPlane.Status.Etcd[0].Members = append(s.controlPlane.Status.Etcd[0].Members, controlplanev1.EtcdMemberStatus{Name: "blue-etcd-data-1", State: learner})
		}, prompt: true},
		"a pod is outdated":                               {change: func(_ *scope, seen *status.Observation) { seen.Workloads[names.EtcdData].Updated-- }, prompt: true},
		"a member turned ready":                           {change: func(_ *scope, seen *status.Observation) { seen.Workloads[names.EtcdData].Ready-- }, prompt: true},
		"a member's address is new":                       {change: func(s *scope, _ *status.Observation) { s.input.Addresses["blue-etcd-data-0"] = "10.250.0.9" }, identity: true},
		"there is another CA":                             {change: func(s *scope, _ *status.Observation) { s.keys.EtcdCA.Bundle = []byte("other") }, identity: true},
		"there is another connection to its host cluster": {change: func(s *scope, _ *status.Observation) { s.host = &Host{Identity: "team/host#2"} }, identity: true},
		"another cluster's CA":                            {change: func(s *scope, _ *status.Observation) { s.keys.EtcdEventsCA.Bundle = []byte("other") }},
	} {
		t.Run(name, func(t *testing.T) {
			notes := newTaskbook()
			r := &Reconciler{etcdOperator: notes}
			s, seen := askable(t), settled()
			s.controlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{{
				Name: "data", Replicas: new(int32(3)), ReadyReplicas: new(int32(3)), Bootstrapped: new(false),
				Members: []controlplanev1.EtcdMemberStatus{{Name: "blue-etcd-data-0", State: voter}},
			}}
			r.operateEtcd(s, seen.Workloads, nil)
			before := notes.of(names.EtcdData)
			test.change(s, seen)
			r.operateEtcd(s, seen.Workloads, nil)
			after := notes.of(names.EtcdData)
			if (before.identity != after.identity) != test.identity || (before.prompt != after.prompt) != test.prompt {
				t.Errorf("before %q, %q; after %q, %q", before.identity, before.prompt, after.identity, after.prompt)
			}
		})
	}
}

func TestEtcdWithoutAQuorumIsNotOperatedBeforeItsFirst(t *testing.T) {
	notes := newTaskbook()
	s, seen := askable(t), settled()
	s.controlPlane.Status.Etcd = nil
	seen.Workloads[names.EtcdData].Ready = 1
	reports := (&Reconciler{etcdOperator: notes}).operateEtcd(s, seen.Workloads, nil)
	if notes.tasks[names.EtcdData] != nil || reports[names.EtcdData] != nil || reports[names.EtcdEvents] == nil {
		t.Errorf("tasks %v, reports %v", notes.tasks, reports)
	}
}

// A pod that the operator deletes mounts certificates that nobody renews any more. What passes by itself must not end a step
// that has begun.
func TestEtcdIsLeftAloneWhileOnlyAPersonCanBringItsKeysBack(t *testing.T) {
	for name, test := range map[string]struct {
		ended     flow.Result
		forgotten int
	}{
		"they are gone in both places":            {keyrotation.Failed(&pki.LostError{}), 1},
		"a copy cannot be used, or copies differ": {keyrotation.Failed(&pki.InvalidError{}), 1},
		"they could not be read":                  {keyrotation.Failed(errors.New("an API server is away")), 0},
		"another write was faster":                {keyrotation.Failed(apierrors.NewConflict(schema.GroupResource{}, "blue-ca", nil)), 0},
		"it waits":                                {flow.Waiting("anything"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			notes := newTaskbook()
			s, seen := askable(t), settled()
			s.keys, s.outcomes = nil, []flow.Outcome{{Name: names.StepKeyMaterial, Ran: true, Result: test.ended}, {Name: names.StepCertificates}}
			reports := (&Reconciler{etcdOperator: notes}).operateEtcd(s, seen.Workloads, nil)
			if notes.forgotten != test.forgotten || len(notes.tasks) > 0 || len(reports) > 0 || s.probing {
				t.Errorf("forgotten %d times, tasks %v, reports %v, probing %t", notes.forgotten, notes.tasks, reports, s.probing)
			}
		})
	}
}

// Of three members one is listed. While the second is added, another pod turns ready.
func TestAChangedObservationDoesNotCancelAStepHalfDone(t *testing.T) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: names.Config("blue", names.EtcdData)}, Data: map[string]string{}}
	builder := fake.NewClientBuilder().WithObjects(config)
	for i, node := range []string{"n0", "n1", "n2"} {
		config.Data[statustest.PodName(names.EtcdData, int32(i))+".yaml"] = "initial-cluster-state: existing"
		builder.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	began, mayEnd, ended := make(chan struct{}, 10), make(chan struct{}), make(chan error, 10)
	etcds := operator.New(operator.Etcd{
		Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
			return &etcd.Health{Members: []etcd.Member{{Name: statustest.PodName(names.EtcdData, 0), ID: 1, Answered: true, Follows: true, Listed: true, Started: true, Leader: true}}}, nil
		},
		Change: func(ctx context.Context, _ membership.Kind, _ string, _ *etcd.Health, _ map[string]etcd.Address, _ *tls.Config) error {
			began <- struct{}{}
			select {
			case <-ctx.Done():
			case <-mayEnd:
			}
			ended <- ctx.Err()
			return errors.New("once is enough")
		},
	}, clock.RealClock{}, events.NewFakeRecorder(10))
	if err := etcds.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{etcdOperator: etcds}
	s, seen, host := askable(t), settled(), builder.Build()
	s.host, s.keys = &Host{Client: host, Live: host}, issue(t, "blue", "blue.example.com").keys
	s.controlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", Bootstrapped: new(true)}}
	delete(seen.Workloads, names.EtcdEvents)

	r.operateEtcd(s, seen.Workloads, nil)
	<-began
	seen.Workloads[names.EtcdData].Ready--
	r.operateEtcd(s, seen.Workloads, nil)
	select {
	case err := <-ended:
		t.Errorf("the step was cancelled: %v", err)
	case <-time.After(200 * time.Millisecond):
		close(mayEnd)
		if err := <-ended; err != nil {
			t.Errorf("the step ended with %v", err)
		}
	}
	etcds.Forget(client.ObjectKeyFromObject(s.controlPlane))
}
