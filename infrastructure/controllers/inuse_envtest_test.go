//go:build envtest

package controllers

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
)

const factOfTheirs = "kubelet runs, and /etc/kubernetes/kubelet.conf leads to https://10.0.0.1:6443"

// theirs makes a host of the fleet a node of somebody's cluster.
func theirs(h *machineHost) {
	h.usage = ownership.Usage{Kubelets: []string{"kubelet.service"}, Kubeconfig: true, Server: "https://10.0.0.1:6443"}
}

func (s *site) untouched(name string) {
	s.t.Helper()
	if h := s.fleet.edit(name, nil); h.bootstraps != 0 || h.cleanUps != 0 || h.usage.Server == "" {
		s.t.Errorf("%s was changed: %+v", name, h)
	}
}

// addNode adds a Node of the host cluster until the end of the test. All tests have the same host cluster.
func (s *site) addNode(name, providerID, address string) *corev1.Node {
	s.t.Helper()
	added := node(name, providerID)
	status := corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}
	s.create(added)
	s.t.Cleanup(func() {
		if err := s.Client.Delete(context.Background(), added); client.IgnoreNotFound(err) != nil {
			s.t.Error(err)
		}
	})
	added.Status = status
	if err := s.Client.Status().Update(s.t.Context(), added); err != nil {
		s.t.Fatal(err)
	}
	return added
}

func TestAHostOfOthersIsClaimedWhenAPersonRepeatsTheFact(t *testing.T) {
	s := newSite(t)
	s.fleet.edit("host-1", theirs)
	s.host("host-1", nil)
	s.manager(nil)
	message := says(s, &infrav1.IDCHost{}, "host-1", infrav1.HealthyCondition, infrav1.InUseReason)
	if want := "IDCHost host-1 is in use: " + factOfTheirs + `; set its spec.takeOver to "` + factOfTheirs + `" if this machine may be wiped, or else delete the IDCHost`; message != want {
		t.Errorf("it says %q", message)
	}
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.NotHealthyReason)
	s.machine("worker-1", nil)
	says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.ReadyCondition, infrav1.NoHostReason, "1 in use by others, see their conditions", message)

	edit(s, "host-1", func(h *infrav1.IDCHost) { h.Spec.TakeOver = "kubelet runs" })
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.HealthyCondition, infrav1.InUseReason, `set its spec.takeOver, which is "kubelet runs", to "`+factOfTheirs+`"`)
	if !without(t, time.Second, func() bool { return s.getHost("host-1").Spec.Claim != nil }) {
		t.Error("it is claimed with the word for another fact")
	}
	s.untouched("host-1")

	edit(s, "host-1", func(h *infrav1.IDCHost) { h.Spec.TakeOver = factOfTheirs })
	s.ready("worker-1")
	if h := s.fleet.edit("host-1", nil); h.bootstraps != 1 {
		t.Errorf("%+v", h)
	}
	// The word stays in Git: it does nothing for a host that is free, or carries our own machine.
	s.delete(&infrav1.IDCMachine{}, "worker-1")
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.FreeReason)
}

func TestAHostThatIsANodeOfTheHostClusterIsNotClaimedWhileItIs(t *testing.T) {
	const address = "203.0.113.9"
	s := newSite(t)
	own := func(h *machineHost) { h.usage.Addresses = []netip.Addr{netip.MustParseAddr(address)} }
	s.fleet.edit("host-1", own)
	s.host("host-1", nil)
	s.manager(nil)
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.FreeReason)
	added := s.addNode("node-"+s.namespace, "", address)
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.HealthyCondition, infrav1.InUseReason, "IDCHost host-1 is in use: the host cluster's Node "+added.Name+" has the address "+address)
	s.machine("worker-1", nil)
	says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.ReadyCondition, infrav1.NoHostReason, "1 in use by others")
	if err := s.Client.Delete(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	s.ready("worker-1")

	// A tenant may be its own management cluster: its Node is the machine that the host carries.
	s.fleet.edit("host-1", own)
	s.addNode("own-"+s.namespace, s.getMachine("worker-1").Spec.ProviderID, address)
	s.addNode("of-nobody-"+s.namespace, "", address)
	if !without(t, time.Second, func() bool {
		return conditions.GetReason(s.getHost("host-1"), infrav1.HealthyCondition) == infrav1.InUseReason
	}) {
		t.Errorf("it is somebody's: %+v", s.getHost("host-1").Status.Conditions)
	}
}

// A host was free when it was asked the last time.
func TestAHostThatOthersTookIsNotClaimedByItsOldStatus(t *testing.T) {
	s := newSite(t)
	s.host("host-a", nil)
	p := s.program(&mortal{writesLeft: 1000})
	for range manySteps {
		p.step(s)
	}
	says(s, &infrav1.IDCHost{}, "host-a", infrav1.AvailableCondition, infrav1.FreeReason)
	s.fleet.edit("host-a", theirs)
	s.machine("worker-1", nil)
	reconcile := func() {
		for range manySteps {
			if _, err := p.machines.Reconcile(t.Context(), requestFor(s.getMachine("worker-1"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	reconcile()
	says(s, &infrav1.IDCHost{}, "host-a", infrav1.AvailableCondition, infrav1.FreeReason)
	says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.HostClaimedCondition, infrav1.NoHostReason,
		"1 in use by others, see their conditions; add hosts, or put these right. IDCHost host-a is in use: "+factOfTheirs+"; set its spec.takeOver to")
	if host := s.getHost("host-a"); host.Spec.Claim != nil || s.getMachine("worker-1").Spec.HostRef != nil {
		t.Errorf("it is claimed: %+v", host.Spec)
	}

	s.host("host-b", nil)
	for range manySteps {
		if _, err := p.hosts.Reconcile(t.Context(), requestFor(s.getHost("host-b"))); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	if got := s.getMachine("worker-1").Spec.HostRef; got == nil || got.Name != "host-b" || s.bijection() != 1 {
		t.Errorf("it has %+v", got)
	}
	s.untouched("host-a")
}

// lateComer is a hostclient.Client of a fleet whose host becomes somebody's between the claim and the first change.
type lateComer struct {
	*fleet
	comes sync.Once
}

func (l *lateComer) Bootstrap(ctx context.Context, host *infrav1.IDCHost, machine bootstrap.Machine) (bootstrap.Progress, error) {
	l.comes.Do(func() { l.edit(host.Name, theirs) })
	return l.fleet.Bootstrap(ctx, host, machine)
}

func TestAHostThatOthersTookAfterItsClaimIsLeftAsItIs(t *testing.T) {
	for name, takenOver := range map[string]bool{"and given back with its machine": false, "until a person gives it away": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.hostClient = &lateComer{fleet: s.fleet}
			s.host("host-1", nil)
			s.manager(nil)
			says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.FreeReason)
			s.machine("worker-1", nil)
			const want = "IDCHost host-1 is in use: " + factOfTheirs + `; set its spec.takeOver to "` + factOfTheirs + `" if this machine may be wiped, or else delete the Machine: its replacement gets another host`
			for _, condition := range []string{infrav1.BootstrappedCondition, infrav1.ReadyCondition} {
				if message := says(s, &infrav1.IDCMachine{}, "worker-1", condition, infrav1.InUseReason); message != want {
					t.Errorf("%s says %q", condition, message)
				}
			}
			s.untouched("host-1")
			if takenOver {
				edit(s, "host-1", func(h *infrav1.IDCHost) { h.Spec.TakeOver = factOfTheirs })
				s.ready("worker-1")
				return
			}
			s.delete(&infrav1.IDCMachine{}, "worker-1")
			s.eventually("the machine is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-1") })
			says(s, &infrav1.IDCHost{}, "host-1", infrav1.HealthyCondition, infrav1.InUseReason)
			if host := s.getHost("host-1"); host.Spec.Claim != nil || host.Spec.Quarantine != nil || len(host.Finalizers) > 0 {
				t.Errorf("it is not given back as it was: %+v", host.Spec)
			}
			s.untouched("host-1")
		})
	}
}

// Status does not come along with a move, and the record is on the host.
func TestAWorkerOfOursIsNeverThatOfOthers(t *testing.T) {
	s := newSite(t)
	s.host("host-1", nil)
	s.machine("worker-1", nil)
	s.run(&mortal{writesLeft: 1000})
	s.ready("worker-1")
	machine := s.getMachine("worker-1")
	machine.Status = infrav1.IDCMachineStatus{}
	host := s.getHost("host-1")
	host.Status = infrav1.IDCHostStatus{}
	for _, object := range []client.Object{machine, host} {
		if err := s.Client.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	s.addNode("node-"+s.namespace, "", "198.51.100.7")
	s.run(&mortal{writesLeft: 1000})
	s.ready("worker-1")
	if found := conditions.Get(s.getHost("host-1"), infrav1.HealthyCondition); found == nil || found.Status != metav1.ConditionTrue {
		t.Errorf("%+v", found)
	}
	if !ptr.Deref(s.getMachine("worker-1").Status.Initialization.Provisioned, false) {
		t.Error("it is no node")
	}
	if h := s.fleet.edit("host-1", nil); h.bootstraps != 1 || h.cleanUps != 0 {
		t.Errorf("%+v", h)
	}
}
