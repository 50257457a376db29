//go:build envtest

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// bijection checks that machines and hosts name each other, and returns how many pairs there are.
func (s *site) bijection() int {
	s.t.Helper()
	machines, list := &infrav1.IDCMachineList{}, &infrav1.IDCHostList{}
	for _, l := range []client.ObjectList{machines, list} {
		if err := s.Client.List(s.t.Context(), l, client.InNamespace(s.namespace)); err != nil {
			s.t.Fatal(err)
		}
	}
	hostOf, pairs := map[string]string{}, 0
	for i := range list.Items {
		claim := list.Items[i].Spec.Claim
		if claim == nil {
			continue
		}
		if other := hostOf[claim.Name]; other != "" {
			s.t.Errorf("%s has both %s and %s", claim.Name, other, list.Items[i].Name)
		}
		hostOf[claim.Name] = list.Items[i].Name
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		if machine.Spec.ProviderID == "" {
			continue
		}
		pairs++
		if want := hostOf[machine.Name]; machine.Spec.HostRef.Name != want || machine.Spec.ProviderID != "idc://"+s.namespace+"/"+want+"/"+machine.Spec.InstanceID {
			s.t.Errorf("%s names %s (%s), and %q is claimed for it", machine.Name, machine.Spec.HostRef.Name, machine.Spec.ProviderID, want)
		}
	}
	if pairs != len(hostOf) {
		s.t.Errorf("%d machines have hosts, %d hosts are claimed", pairs, len(hostOf))
	}
	return pairs
}

func TestTwoManagersAtOnceClaimNothingTwice(t *testing.T) {
	s := newSite(t)
	for i := range 6 {
		s.host(fmt.Sprintf("host-%d", i), nil)
	}
	for i := range 10 {
		s.machine(fmt.Sprintf("worker-%d", i), nil)
	}
	// Each program probes and bootstraps by itself, and both may be on one host for its machine: the fleet would tell of two machines there.
	s.fleet.shared = true
	stop := s.manager(nil)
	s.manager(nil)
	bootstrapped := func() int {
		count := 0
		for i := range 10 {
			if host := s.fleet.edit(fmt.Sprintf("host-%d", i), nil); host.bootstraps > 0 {
				count++
			}
		}
		return count
	}
	s.eventually("all hosts are machines", func() bool { return bootstrapped() == 6 })
	for i := range 4 {
		s.host(fmt.Sprintf("host-%d", 6+i), nil)
	}
	stop()
	for i := range 10 {
		s.ready(fmt.Sprintf("worker-%d", i))
	}
	if pairs := s.bijection(); pairs != 10 {
		t.Errorf("%d machines have hosts", pairs)
	}
	for i := range 10 {
		if host := s.fleet.edit(fmt.Sprintf("host-%d", i), nil); host.bootstraps != 1 {
			t.Errorf("host-%d was bootstrapped %d times", i, host.bootstraps)
		}
	}
}

// mortal is a client that dies after some writes: no later one comes through.
type mortal struct{ writesLeft int }

var errDead = errors.New("the program is dead")

func (m *mortal) use() error {
	if m.writesLeft <= 0 {
		return errDead
	}
	m.writesLeft--
	return nil
}

func (m *mortal) client(t *testing.T) client.Client {
	t.Helper()
	inner, err := client.NewWithWatch(asManager(environment), client.Options{Scheme: environment.Scheme, Mapper: environment.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := m.use(); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, resource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := m.use(); err != nil {
				return err
			}
			return c.SubResource(resource).Patch(ctx, object, patch, options...)
		},
	})
}

// program is one run of the controllers without caches and watches: a test calls it step by step.
type program struct {
	machines *MachineReconciler
	hosts    *HostReconciler
	clusters *ClusterReconciler
}

func (s *site) program(m *mortal) *program {
	c := m.client(s.t)
	return &program{
		machines: &MachineReconciler{
			Client: c, APIReader: c, Hosts: s.hostClient, WatchFilterValue: s.watchFilter,
			Clock: clocktesting.NewFakePassiveClock(time.Now()), CleanUpTimeout: time.Hour,
			work: newInline(), recorder: events.NewFakeRecorder(1000),
		},
		hosts:    &HostReconciler{Client: c, APIReader: c, Hosts: s.hostClient, WatchFilterValue: s.watchFilter, probes: newInline(), recorder: events.NewFakeRecorder(1000)},
		clusters: &ClusterReconciler{Client: c, WatchFilterValue: s.watchFilter},
	}
}

// step reconciles everything once.
func (p *program) step(s *site) {
	list := &infrav1.IDCHostList{}
	if err := s.Client.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		if _, err := p.hosts.Reconcile(s.t.Context(), requestFor(&list.Items[i])); err != nil && !errors.Is(err, errDead) {
			s.t.Logf("host: %v", err)
		}
	}
	machines := &infrav1.IDCMachineList{}
	if err := s.Client.List(s.t.Context(), machines, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	for i := range machines.Items {
		if _, err := p.machines.Reconcile(s.t.Context(), requestFor(&machines.Items[i])); err != nil && !errors.Is(err, errDead) {
			s.t.Logf("machine: %v", err)
		}
	}
}

const manySteps = 8

// A program that is killed after any of its writes leaves a half of a claim, or of a release, to the next.
func TestAProgramThatIsKilledLeavesNothingHalfClaimed(t *testing.T) {
	smooth := newTwoHosts(t)
	claiming, releasing := &mortal{writesLeft: 1000}, &mortal{writesLeft: 1000}
	smooth.run(claiming)
	smooth.delete(&infrav1.IDCMachine{}, "worker-1")
	smooth.run(releasing)
	writes := 1000 - min(claiming.writesLeft, releasing.writesLeft)
	t.Logf("a claim takes %d writes, a release %d", 1000-claiming.writesLeft, 1000-releasing.writesLeft)
	if writes < 5 || !smooth.gone(&infrav1.IDCMachine{}, "worker-1") {
		t.Fatal("the machine does not come and go in a few steps")
	}
	for write := range writes {
		t.Run(fmt.Sprintf("after write %d", write), func(t *testing.T) {
			t.Parallel()
			s := newTwoHosts(t)
			s.run(&mortal{writesLeft: write})
			s.run(&mortal{writesLeft: 1000})
			if pairs := s.bijection(); pairs != 1 {
				t.Errorf("%d machines have hosts", pairs)
			}
			s.delete(&infrav1.IDCMachine{}, "worker-1")
			s.run(&mortal{writesLeft: write})
			s.run(&mortal{writesLeft: 1000})
			if !s.gone(&infrav1.IDCMachine{}, "worker-1") {
				t.Error("the machine is there")
			}
			for _, name := range []string{"host-a", "host-b"} {
				if host := s.getHost(name); host.Spec.Claim != nil || host.Spec.Quarantine != nil || len(host.Finalizers) > 0 {
					t.Errorf("%s has %+v", name, host.Spec)
				}
				if h := s.fleet.edit(name, nil); h.machine != "" {
					t.Errorf("%s still carries a machine", name)
				}
			}
		})
	}
}

// newTwoHosts is a site with one machine that may have either of two hosts.
func newTwoHosts(t *testing.T) *site {
	s := newSite(t)
	s.host("host-a", nil)
	s.host("host-b", nil)
	s.machine("worker-1", nil)
	return s
}

// run is one life of a program.
func (s *site) run(m *mortal) {
	s.t.Helper()
	p := s.program(m)
	for range manySteps {
		p.step(s)
	}
}

// A program that was very slow claims a host for a machine that has another one by then.
func TestAHostThatWasClaimedTooLateIsReleased(t *testing.T) {
	s := newSite(t)
	s.host("host-a", nil)
	s.host("host-b", nil)
	s.machine("worker-1", nil)
	p := s.program(&mortal{writesLeft: 1000})
	for range manySteps {
		p.step(s)
	}
	machine := s.getMachine("worker-1")
	other := map[string]string{"host-a": "host-b", "host-b": "host-a"}[machine.Spec.HostRef.Name]
	edit(s, other, func(h *infrav1.IDCHost) {
		h.Spec.Claim = &infrav1.HostClaim{Name: machine.Name, InstanceID: machine.Spec.InstanceID}
		h.Finalizers = []string{infrav1.IDCHostFinalizer}
	})
	if _, err := p.hosts.Reconcile(t.Context(), ctrl.Request{NamespacedName: s.key(other)}); err != nil {
		t.Fatal(err)
	}
	if host := s.getHost(other); host.Spec.Claim != nil || len(host.Finalizers) > 0 {
		t.Errorf("it is not released: %+v", host.Spec)
	}
	if pairs := s.bijection(); pairs != 1 {
		t.Errorf("%d machines have hosts", pairs)
	}
}

// Without it the host could be deleted under its machine.
func TestAFinalizerThatWasTakenFromAClaimedHostComesBack(t *testing.T) {
	s := newTwoHosts(t)
	s.run(&mortal{writesLeft: 1000})
	claimed, other := s.getMachine("worker-1").Spec.HostRef.Name, "host-b"
	if claimed == other {
		other = "host-a"
	}
	edit(s, claimed, func(h *infrav1.IDCHost) { h.Finalizers = nil })
	s.run(&mortal{writesLeft: 1000})
	if host := s.getHost(claimed); !slices.Equal(host.Finalizers, []string{infrav1.IDCHostFinalizer}) || host.Spec.Claim == nil {
		t.Errorf("the claimed host has finalizers %v, claim %v", host.Finalizers, host.Spec.Claim)
	}
	if host := s.getHost(other); len(host.Finalizers) > 0 {
		t.Errorf("the free host has finalizers %v", host.Finalizers)
	}
}

// An inventory has thousands of hosts, and a rack that loses its power as many machines that wait for it.
func TestAMachineThatWaitsForItsHostReadsNoOther(t *testing.T) {
	s := newTwoHosts(t)
	p := s.program(&mortal{writesLeft: 1000})
	for range manySteps {
		p.step(s)
	}
	s.fleet.edit(s.getMachine("worker-1").Spec.HostRef.Name, func(h *machineHost) {
		h.reach = &ssh.Error{Reason: ssh.Away, Err: errors.New("no route")}
	})
	lists := 0
	p.machines.APIReader = interceptor.NewClient(p.machines.APIReader.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists++
			return c.List(ctx, list, options...)
		},
	})
	s.delete(&infrav1.IDCMachine{}, "worker-1")
	for range manySteps {
		p.step(s)
	}
	if lists > 0 || s.gone(&infrav1.IDCMachine{}, "worker-1") {
		t.Errorf("%d lists", lists)
	}
	for _, name := range []string{"host-a", "host-b"} {
		s.fleet.edit(name, func(h *machineHost) { h.reach = nil })
	}
	for range manySteps {
		p.step(s)
	}
	if !s.gone(&infrav1.IDCMachine{}, "worker-1") {
		t.Error("it waits for ever")
	}
}

// What a cache says of a claim may be old: decisions are made on what is stored.
func TestAHostThatIsTakenInTheMeantimeIsLeftToItsMachine(t *testing.T) {
	s := newSite(t)
	s.host("host-a", nil)
	s.machine("worker-1", nil)
	p := s.program(&mortal{writesLeft: 1000})
	for range manySteps {
		p.step(s)
	}
	stale := s.getHost("host-a")
	stale.Spec.Claim = nil
	s.machine("worker-2", nil)
	c := p.machines.Client
	p.machines.Client = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if hosts, ok := list.(*infrav1.IDCHostList); ok {
				stale.Status.Conditions = []metav1.Condition{{Type: infrav1.AvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.FreeReason}}
				hosts.Items = []infrav1.IDCHost{*stale}
				return nil
			}
			return c.List(ctx, list, options...)
		},
	})
	for range manySteps {
		p.step(s)
	}
	if pairs := s.bijection(); pairs != 1 || s.getHost("host-a").Spec.Claim.Name != "worker-1" {
		t.Errorf("%d machines have hosts", pairs)
	}
	if machine := s.getMachine("worker-2"); machine.Spec.HostRef != nil {
		t.Errorf("it still names %s", machine.Spec.HostRef.Name)
	}
}
