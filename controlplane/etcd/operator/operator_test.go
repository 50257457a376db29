package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/source"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/membership"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background/backgroundtest"
)

var _ source.Source = &Operator{}

var errRefused = errors.New("connection refused")

func podName(component string, i int32) string { return fmt.Sprintf("blue-%s-%d", component, i) }

func readyPod(component string, i int32) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(component, i)},
		Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("n%d", i)},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// healthy is an etcd with three members, of which the first leads.
func healthy() *etcd.Health {
	health := &etcd.Health{}
	for i := range int32(3) {
		health.Members = append(health.Members, etcd.Member{Name: podName(names.EtcdData, i), Listed: true, Leader: i == 0})
	}
	return health
}

// newHost builds a host cluster that finds volume claims by their names, as every API server does.
func newHost() *fake.ClientBuilder {
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	return fake.NewClientBuilder().WithIndex(&corev1.PersistentVolumeClaim{}, metav1.ObjectNameField, byName)
}

// newTask is about the etcd with the data of a control plane in a host cluster, which shall have three members.
func newTask(host client.Client) *Task {
	in := components.Input{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Addresses: map[string]string{}}
	in.Spec.Etcd.Data.Replicas, in.Spec.Etcd.Events.Replicas = ptr.To[int32](3), ptr.To[int32](3)
	for i := range int32(3) {
		in.Addresses[podName(names.EtcdData, i)] = fmt.Sprintf("10.250.0.%d", i+1)
	}
	return &Task{
		ControlPlane: &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue"}},
		Cluster:      etcdcomponent.Data, Host: &hostclusters.Host{Client: host, Live: host}, Keys: &pki.KeyMaterial{}, Input: in,
		PodsEnd: 3, Bootstrapped: true,
	}
}

// withKeys is a task with key material, as a whole run needs it.
func withKeys(t *testing.T, task *Task) *Task {
	t.Helper()
	host := newHost().Build()
	access := secrets.Access{Cached: host, Live: host, Writer: host}
	store := &pki.Store{Management: access, Host: access}
	keys, err := store.Ensure(t.Context(), pki.Request{
		Cluster: task.Input.Cluster, UsedBy: func(context.Context) (string, error) { return "", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	task.Keys = keys
	return task
}

// growing is an etcd of which one of three members is listed. A change of its members ends when it may, or when its
// context ends.
type growing struct {
	// observed and began have one entry for each observation, and each change that began; ended says how it ended.
	observed, began, mayEnd chan struct{}
	ended                   chan error
}

func newGrowing() growing {
	return growing{observed: make(chan struct{}, 100), began: make(chan struct{}, 100), mayEnd: make(chan struct{}), ended: make(chan error, 100)}
}

func (g *growing) etcd() Etcd {
	return Etcd{
		Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
			g.observed <- struct{}{}
			health := healthy()
			health.Members = health.Members[:1]
			return health, nil
		},
		Change: func(ctx context.Context, _ membership.Kind, _ string, _ *etcd.Health, _ map[string]etcd.Address, _ *tls.Config) error {
			g.began <- struct{}{}
			select {
			case <-ctx.Done():
			case <-g.mayEnd:
			}
			g.ended <- ctx.Err()
			return ctx.Err()
		},
	}
}

func hostOfThree() *fake.ClientBuilder {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: names.Config("blue", names.EtcdData)}, Data: map[string]string{}}
	builder := newHost().WithObjects(config)
	for i := range 3 {
		config.Data[fmt.Sprintf("blue-etcd-data-%d.yaml", i)] = "initial-cluster-state: existing"
		builder.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}})
	}
	return builder
}

func TestAStepThatHasBegun(t *testing.T) {
	for name, test := range map[string]struct {
		// happens while it is under way.
		happens   func(*Operator, *Task)
		cancelled bool
	}{
		"is taken to its end when a reconcile sees something new": {happens: func(o *Operator, task *Task) {
			task.Seen = "another pod is ready"
			o.Operate(task)
			task.PodsEnd++
			o.Operate(task)
		}},
		"ends when the control plane is forgotten": {happens: func(o *Operator, task *Task) { o.Forget(client.ObjectKeyFromObject(task.ControlPlane)) }, cancelled: true},
		"ends when it is forgotten after that": {happens: func(o *Operator, task *Task) {
			task.Seen = "another pod is ready"
			o.Operate(task)
			o.Forget(client.ObjectKeyFromObject(task.ControlPlane))
		}, cancelled: true},
		"ends when a member has another address": {happens: func(o *Operator, task *Task) {
			task.Input.Addresses = map[string]string{podName(names.EtcdData, 0): "10.250.0.9"}
			o.Operate(task)
		}, cancelled: true},
		"ends when it takes too long": {happens: func(*Operator, *Task) { backgroundtest.After(stepTimeout) }, cancelled: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := &growing{}
			task := withKeys(t, newTask(hostOfThree().Build()))
			begin := func() *Operator {
				*g = newGrowing()
				return New(g.etcd(), clock.RealClock{}, events.NewFakeRecorder(100))
			}
			backgroundtest.InBubble(t, begin, func(t *testing.T, o *Operator, _ *backgroundtest.Woken) {
				o.Operate(task)
				<-g.began
				next := *task
				test.happens(o, &next)
				backgroundtest.After(time.Second)
				if got := len(g.ended) > 0; got != test.cancelled {
					t.Errorf("cancelled is %t", got)
				}
				if !test.cancelled && len(g.observed) != 1 {
					t.Errorf("beside it etcd was observed %d times", len(g.observed)-1)
				}
				close(g.mayEnd)
				if err := <-g.ended; (err != nil) != test.cancelled {
					t.Errorf("it ended with %v", err)
				}
				backgroundtest.After(time.Second)
				if !test.cancelled && len(g.began) == 0 {
					t.Error("what the reconcile has seen meanwhile leads to nothing")
				}
			})
		})
	}
}

func TestARunThatPanicsIsReportedAsAnEtcdThatDoesNotAnswer(t *testing.T) {
	task := withKeys(t, newTask(hostOfThree().Build()))
	begin := func() *Operator {
		return New(Etcd{Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) { panic("here") }}, clock.RealClock{}, events.NewFakeRecorder(1))
	}
	backgroundtest.InBubble(t, begin, func(t *testing.T, o *Operator, _ *backgroundtest.Woken) {
		if _, ok := o.Operate(task); ok {
			t.Error("there is a report before the first run")
		}
		backgroundtest.After(time.Second)
		if report, ok := o.Operate(task); !ok || report.Err == nil || report.Err.Error() != "task etcd-data panicked; the manager's log has the stack" {
			t.Errorf("%+v, %t", report, ok)
		}
	})
}

// A report of after the step is what status is made of, and wakes the reconcile that makes it.
func TestAfterAStepEtcdIsObservedAgainAndTheControlPlaneReconciled(t *testing.T) {
	task, changes, observed := withKeys(t, newTask(hostOfThree().Build())), 0, 0
	reached := Etcd{
		Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
			observed++
			health := healthy()
			health.Members = health.Members[:1+min(changes, 1)]
			health.Members[len(health.Members)-1].Learner = changes > 0
			return health, nil
		},
		Change: func(context.Context, membership.Kind, string, *etcd.Health, map[string]etcd.Address, *tls.Config) error {
			changes++
			return nil
		},
	}
	begin := func() *Operator { return New(reached, clock.RealClock{}, events.NewFakeRecorder(100)) }
	backgroundtest.InBubble(t, begin, func(t *testing.T, o *Operator, w *backgroundtest.Woken) {
		o.Operate(task)
		synctest.Wait()
		report, ok := o.Operate(task)
		if !ok || len(report.Members) != 2 || report.Change != "added as a learner: blue-etcd-data-1" || changes != 1 || observed != 2 || w.Count() != 1 {
			t.Errorf("%+v, %t after %d changes and %d observations; woken %d times", report, ok, changes, observed, w.Count())
		}
	})
}

// Of this etcd there is everything to do: it has too many members, pods are outdated, and the leader's node is cordoned.
func TestObservingAndDecidingWriteNothing(t *testing.T) {
	e := newRollingEtcd(time.Now())
	builder := hostOfThree().WithObjects(e.set)
	for i := range e.pods {
		builder.WithObjects(&e.pods[i])
	}
	host := builder.Build()
	if err := host.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
		t.Fatal(err)
	}
	reached := Etcd{
		Check: func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error) {
			return e.health, nil
		},
		Change: func(context.Context, membership.Kind, string, *etcd.Health, map[string]etcd.Address, *tls.Config) error {
			t.Error("the members are changed")
			return nil
		},
	}
	c := New(reached, clock.RealClock{}, events.NewFakeRecorder(10)).cluster(t.Context(), newTask(refusing(t, host)))
	health := c.observe(t.Context())
	facts, err := c.leadFacts(t.Context(), health, false)
	if err != nil {
		t.Fatal(err)
	}
	fewer := *c
	fewer.Task = newTask(refusing(t, host))
	fewer.Input.Spec.Etcd.Data.Replicas = ptr.To[int32](1)
	for what, decide := range map[string]func() (decision, error){
		"members": func() (decision, error) { return fewer.decideMembers(t.Context(), health, nil, false) },
		"rollout": func() (decision, error) { return c.decideRollout(t.Context(), health) },
		"lead":    func() (decision, error) { return c.decideLead(health, facts), nil },
	} {
		if decided, err := decide(); err != nil || decided.act == nil {
			t.Errorf("%s: there is no step: %q, %v", what, decided.waitsFor, err)
		}
	}
}

// refusing is a client of which every write fails the test.
func refusing(t *testing.T, host client.WithWatch) client.Client {
	refused := func(what string, object client.Object) error {
		t.Errorf("%s of %s", what, object.GetName())
		return errRefused
	}
	return interceptor.NewClient(host, interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			return refused("create", object)
		},
		Update: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.UpdateOption) error {
			return refused("update", object)
		},
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.DeleteOption) error {
			return refused("delete", object)
		},
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return refused("patch", object)
		},
		DeleteAllOf: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.DeleteAllOfOption) error {
			return refused("delete all", object)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			return refused("patch the status", object)
		},
		SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, object client.Object, _ ...client.SubResourceUpdateOption) error {
			return refused("update the status", object)
		},
	})
}
