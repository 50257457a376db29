//go:build envtest

package controllers

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdmembers"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
)

// inBackground lets a program ask as it does in a manager. Answers that changed are in the queue.
func (p *program) inBackground(t *testing.T) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	prober := probe.New()
	if err := prober.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	etcds := operator.New(p.etcd, p.Clock, p.recorder)
	if err := etcds.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	p.prober, p.etcdOperator = prober, etcds
	return queue
}

func TestAnswersFromTheBackgroundCompleteACreation(t *testing.T) {
	tt := newTenantTest(t, single)
	queue := tt.program.inBackground(t)
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_ = tt.reconcile()
		_, err := tt.host.work(ctx)
		return conditions.IsTrue(tt.controlPlane(), conditionsv1.AvailableCondition) &&
			conditions.IsTrue(tt.controlPlane(), conditionsv1.ReconciledCondition), err
	})
	if err != nil {
		t.Fatalf("%v; it is %v", err, tt.controlPlane().Status.Conditions)
	}
	if next, _ := queue.Get(); next.NamespacedName != tt.key {
		t.Errorf("an answer reconciles %s", next)
	}
}

func TestAProgramThatStartsWritesNothingBeforeAndAfterTheFirstAnswers(t *testing.T) {
	tt := newTenantTest(t, single)
	tt.settle()
	tt.program = newProgram(t, &gate{})
	queue := tt.program.inBackground(t)
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if next, _ := queue.Get(); next.NamespacedName != tt.key {
		t.Errorf("an answer reconciles %s", next)
	}
	for range 20 {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if writes := tt.program.gate.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

// lateAtFirst makes the first answers of each etcd come too late, as when the manager asks thousands of them at once.
func lateAtFirst(late int, check checksEtcd) checksEtcd {
	var lock sync.Mutex
	asked := map[string]int{}
	return func(ctx context.Context, members map[string]etcd.Address, config *tls.Config) (*etcd.Health, error) {
		lock.Lock()
		defer lock.Unlock()
		which := fmt.Sprint(members)
		if asked[which]++; asked[which] <= late {
			return nil, context.DeadlineExceeded
		}
		return check(ctx, members, config)
	}
}

type checksEtcd func(context.Context, map[string]etcd.Address, *tls.Config) (*etcd.Health, error)

// wellEtcd answers for etcds that are well.
func wellEtcd(_ context.Context, members map[string]etcd.Address, _ *tls.Config) (*etcd.Health, error) {
	health := &etcd.Health{ClusterID: "1"}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		health.Members = append(health.Members, etcd.Member{Name: name, Listed: true, Started: true, Answered: true, Follows: true, Leader: len(health.Members) == 0})
	}
	return health, nil
}

func TestAManagerThatStartsAnewWritesNothingThoughItsFirstChecksTakeTooLong(t *testing.T) {
	grant(t)
	var tenants []*tenantTest
	healthy := func(tt *tenantTest) func() bool {
		return func() bool {
			return tt.available() && conditions.IsTrue(tt.controlPlane(), conditionsv1.EtcdClusterHealthyCondition)
		}
	}
	for range 2 {
		tt := newTenantTest(t, single)
		tt.host.keepWorking()
		tenants = append(tenants, tt)
	}
	g := &gate{}
	stop := startManagerThatAsks(t, g, wellEtcd)
	for _, tt := range tenants {
		eventually(t, "it is well", healthy(tt))
	}
	comesToRest(t, g)
	stop()

	const late = 2
	g = &gate{}
	stop = startManagerThatAsks(t, g, lateAtFirst(late, wellEtcd))
	eventually(t, "each etcd has answered", func() bool { return g.questions() >= (late+1)*2*len(tenants) })
	comesToRest(t, g)
	if writes := g.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
	stop()

	startManagerThatAsks(t, &gate{}, noEtcd)
	for _, tt := range tenants {
		eventually(t, "it is told that etcd is away", func() bool {
			is := conditions.Get(tt.controlPlane(), conditionsv1.EtcdClusterHealthyCondition)
			return is.Status == metav1.ConditionUnknown && strings.Contains(is.Message, "cannot be observed")
		})
	}
}

func TestAReconcileDoesNotWaitForAnEtcdThatHangs(t *testing.T) {
	tt := newTenantTest(t, single)
	tt.settle()
	tt.program = newProgram(t, &gate{})
	var gaveUp atomic.Int32
	tt.program.etcd.Check = func(ctx context.Context, _ map[string]etcd.Address, _ *tls.Config) (*etcd.Health, error) {
		<-ctx.Done()
		gaveUp.Add(1)
		return nil, ctx.Err()
	}
	tt.program.inBackground(t)
	for range 3 {
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if gaveUp.Load() > 0 {
		t.Error("reconciles took as long as the probe")
	}
}

// forgetful notes of whom nothing is wanted any more.
type forgetful struct {
	patient
	forgotten map[client.ObjectKey]int
}

func (f forgetful) Forget(controlPlane client.ObjectKey) { f.forgotten[controlPlane]++ }

// forgetfulOperator counts how often it is told to leave a control plane alone.
type forgetfulOperator struct {
	etcdmembers.Operator
	forgotten int
}

func (f *forgetfulOperator) Forget(client.ObjectKey) { f.forgotten++ }

func TestWhatIsPausedDeletedOrGoneIsLeftAlone(t *testing.T) {
	tt := newTenantTest(t, single)
	notes, etcds := forgetful{forgotten: map[client.ObjectKey]int{}}, &forgetfulOperator{Operator: tt.program.etcdOperator}
	tt.settle()
	tt.program.prober, tt.program.etcdOperator = notes, etcds
	forgotten := func(when string, want bool) {
		t.Helper()
		clear(notes.forgotten)
		etcds.forgotten = 0
		if err := tt.reconcile(); err != nil {
			t.Fatal(err)
		}
		if got := notes.forgotten[tt.key] > 0; got != want {
			t.Errorf("%s it is forgotten: %t", when, got)
		}
		if got := etcds.forgotten > 0; got != want {
			t.Errorf("%s its etcds are forgotten: %t", when, got)
		}
	}
	forgotten("in care", false)
	edit(t, tt.cluster, &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) { cluster.Spec.Paused = ptr.To(true) })
	forgotten("paused", true)
	edit(t, tt.cluster, &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) { cluster.Spec.Paused = ptr.To(false) })
	tt.settle()
	forgotten("in care again", false)
	if err := environment.Client.Delete(t.Context(), tt.controlPlane()); err != nil {
		t.Fatal(err)
	}
	forgotten("deleted", true)
	tt.settle()
	forgotten("gone", true)
}
