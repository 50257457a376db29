package etcdmembers

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator/operatortest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// noted is what of a task has the operator begin anew, as it was when it was handed over.
type noted struct{ identity, prompt string }

func noteOf(task *operator.Task) noted { return noted{task.Identity(), task.Prompt()} }

// askable is what a reconcile knows of a control plane of which the addresses and the keys are there, and all is well.
func askable() *Facts {
	f := &Facts{
		ControlPlane: statustest.ControlPlane(), Host: &hostclusters.Host{Own: true}, Keys: &pki.KeyMaterial{ClusterCA: pki.CA{Bundle: []byte("mine")}},
		Input: &components.Input{Cluster: statustest.Cluster, Addresses: map[string]string{}},
		Stops: func(string) bool { return false }, SeedGone: true, Workloads: statustest.Workloads(),
	}
	f.Input.Spec.Etcd.Data.Replicas, f.Input.Spec.Etcd.Events.Replicas = new(int32(3)), new(int32(3))
	for _, component := range etcdcomponent.Components() {
		for i := range int32(3) {
			f.Input.Addresses[statustest.PodName(component, i)] = "10.250.0.1"
		}
	}
	return f
}

func TestTheReportOfEtcdIsWhatStatusIsMadeOf(t *testing.T) {
	notes := operatortest.New()
	of := askable()
	reports, all := Operate(notes, of)
	if all || !errors.Is(reports[names.EtcdData].Err, status.ErrNotObserved) || !errors.Is(reports[names.EtcdEvents].Err, status.ErrNotObserved) {
		t.Errorf("before the first report: all %t, %v", all, reports)
	}

	report := statustest.Etcd()[names.EtcdData]
	for _, component := range etcdcomponent.Components() {
		notes.Reports[component] = report
	}
	if reports, all = Operate(notes, askable()); !all || reports[names.EtcdData] != report {
		t.Errorf("after it: all %t, %v", all, reports)
	}
}

func TestWhenTheOperatorBeginsAnew(t *testing.T) {
	for name, test := range map[string]struct {
		change           func(*Facts)
		identity, prompt bool
	}{
		"nothing changed":         {change: func(*Facts) {}},
		"it was read anew":        {change: func(f *Facts) { f.ControlPlane = f.ControlPlane.DeepCopy() }},
		"its members have joined": {change: func(f *Facts) { f.ControlPlane.Status.Etcd[0].Bootstrapped = new(true) }, prompt: true},
		"etcd lists another": {change: func(f *Facts) {
			f.ControlPlane.Status.Etcd[0].Members = append(f.ControlPlane.Status.Etcd[0].Members, controlplanev1.EtcdMemberStatus{Name: "blue-etcd-data-1", State: controlplanev1.EtcdMemberLearner})
		}, prompt: true},
		"a pod is outdated":                               {change: func(f *Facts) { f.Workloads[names.EtcdData].Updated-- }, prompt: true},
		"a member turned ready":                           {change: func(f *Facts) { f.Workloads[names.EtcdData].Ready-- }, prompt: true},
		"a member's address is new":                       {change: func(f *Facts) { f.Input.Addresses["blue-etcd-data-0"] = "10.250.0.9" }, identity: true},
		"there is another CA":                             {change: func(f *Facts) { f.Keys.EtcdCA.Bundle = []byte("other") }, identity: true},
		"there is another connection to its host cluster": {change: func(f *Facts) { f.Host = &hostclusters.Host{Identity: "team/host#2"} }, identity: true},
		"another member keeps a verified snapshot":        {change: func(f *Facts) { f.SnapshotKeepers = []string{"blue-etcd-data-1"} }, prompt: true},
		"another cluster's CA":                            {change: func(f *Facts) { f.Keys.EtcdEventsCA.Bundle = []byte("other") }},
	} {
		t.Run(name, func(t *testing.T) {
			notes := operatortest.New()
			f := askable()
			f.ControlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{{
				Name: "data", Replicas: new(int32(3)), ReadyReplicas: new(int32(3)), Bootstrapped: new(false),
				Members: []controlplanev1.EtcdMemberStatus{{Name: "blue-etcd-data-0", State: controlplanev1.EtcdMemberVoter}},
			}}
			Operate(notes, f)
			before := noteOf(notes.Tasks[names.EtcdData])
			test.change(f)
			Operate(notes, f)
			after := noteOf(notes.Tasks[names.EtcdData])
			if (before.identity != after.identity) != test.identity || (before.prompt != after.prompt) != test.prompt {
				t.Errorf("before %q, %q; after %q, %q", before.identity, before.prompt, after.identity, after.prompt)
			}
			if keepers := notes.Tasks[names.EtcdEvents].SnapshotKeepers; len(keepers) > 0 {
				t.Errorf("members of the etcd with the events keep snapshots of %v", keepers)
			}
		})
	}
}

func TestTheOperatorKnowsWherePodsEnd(t *testing.T) {
	notes, f := operatortest.New(), askable()
	f.Workloads[names.EtcdData].First, f.Workloads[names.EtcdData].Desired = 2, 3
	Operate(notes, f)
	if got := notes.Tasks[names.EtcdData].PodsEnd; got != 5 {
		t.Errorf("pods end before %d", got)
	}
}

func TestEtcdWithoutAQuorumIsNotOperatedBeforeItsFirst(t *testing.T) {
	notes := operatortest.New()
	f := askable()
	f.ControlPlane.Status.Etcd = nil
	f.Workloads[names.EtcdData].Ready = 1
	reports, _ := Operate(notes, f)
	if notes.Tasks[names.EtcdData] != nil || reports[names.EtcdData] != nil || reports[names.EtcdEvents] == nil {
		t.Errorf("tasks %v, reports %v", notes.Tasks, reports)
	}
}

// A host cluster that is busy sees a new StatefulSet late. A thousand etcds without a pod that were asked again and again meanwhile made it
// busier still.
func TestAnEtcdWithoutPodsIsNotOperated(t *testing.T) {
	notes := operatortest.New()
	f := askable()
	f.ControlPlane.Status.Etcd = nil
	f.Workloads[names.EtcdData] = &workloads.State{Desired: 3, Needed: 2}
	Operate(notes, f)
	if notes.Tasks[names.EtcdData] != nil {
		t.Error("the operator has it")
	}
}

// Of three members one is listed. While the second is added, another pod turns ready.
func TestAChangedObservationDoesNotCancelAStepHalfDone(t *testing.T) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: names.Config("blue", names.EtcdData)}, Data: map[string]string{}}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	builder := fake.NewClientBuilder().WithIndex(&corev1.PersistentVolumeClaim{}, metav1.ObjectNameField, byName).WithObjects(config)
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
	f, host := askable(), builder.Build()
	f.Host = &hostclusters.Host{Client: host, Live: host}
	access := secrets.Access{Cached: host, Live: host, Writer: host}
	var err error
	if f.Keys, err = (&pki.Store{Management: access, Host: access}).Ensure(t.Context(), pki.Request{
		Cluster: f.Input.Cluster, UsedBy: func(context.Context) (string, error) { return "", nil },
	}); err != nil {
		t.Fatal(err)
	}
	f.ControlPlane.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", Bootstrapped: new(true)}}
	delete(f.Workloads, names.EtcdEvents)

	Operate(etcds, f)
	<-began
	f.Workloads[names.EtcdData].Ready--
	Operate(etcds, f)
	select {
	case err := <-ended:
		t.Errorf("the step was cancelled: %v", err)
	case <-time.After(200 * time.Millisecond):
		close(mayEnd)
		if err := <-ended; err != nil {
			t.Errorf("the step ended with %v", err)
		}
	}
	etcds.Forget(client.ObjectKeyFromObject(f.ControlPlane))
}

func TestAnEtcdWhosePodsAreOutdatedIsOperatedBeforeItsFirstQuorum(t *testing.T) {
	notes, f := operatortest.New(), askable()
	f.ControlPlane.Status.Etcd = nil
	f.Workloads[names.EtcdData].Ready, f.Workloads[names.EtcdData].Updated = 0, 0
	Operate(notes, f)
	if notes.Tasks[names.EtcdData] == nil {
		t.Error("the operator does not have it, and a bad rendering cannot be taken back")
	}
}
