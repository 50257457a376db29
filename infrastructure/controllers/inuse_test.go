package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/claims"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/nodes"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

func node(name, providerID string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.ProviderID = providerID
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	for _, address := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return n
}

func hostAt(address string) *infrav1.IDCHost {
	host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "host-1"}}
	host.Spec.Address = address
	return host
}

func withNodes(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestTheConditionOfAHostOfOthersNamesTheFactAndTheWaysOut(t *testing.T) {
	const kubelet, ofNode = "kubelet runs", "the host cluster's Node idc-1 has the address 192.0.2.7"
	runs := ownership.Usage{Kubelets: []string{"kubelet.service"}}
	at := ownership.Usage{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}
	provisioned := &infrav1.IDCMachine{}
	provisioned.Status.Initialization.Provisioned = ptr.To(true)
	for name, test := range map[string]struct {
		usage    ownership.Usage
		address  string
		takeOver string
		node     *corev1.Node
		machine  *infrav1.IDCMachine
		status   metav1.ConditionStatus
		reason   string
		message  string
	}{
		"a free host": {address: "192.0.2.7", status: metav1.ConditionTrue, reason: infrav1.HealthyReason},
		"one with a kubelet": {usage: runs, status: metav1.ConditionFalse, reason: infrav1.InUseReason,
			message: `IDCHost host-1 is in use: kubelet runs; set its spec.takeOver to "kubelet runs" if this machine may be wiped, or else delete the IDCHost`},
		"one with a kubelet, and a word for another fact": {usage: runs, takeOver: ofNode, status: metav1.ConditionFalse, reason: infrav1.InUseReason,
			message: `IDCHost host-1 is in use: kubelet runs; set its spec.takeOver, which is "` + ofNode + `", to "kubelet runs" if this machine may be wiped, or else delete the IDCHost`},
		"one that a person gives away": {usage: runs, takeOver: kubelet, status: metav1.ConditionTrue, reason: infrav1.HealthyReason,
			message: "spec.takeOver lets this machine be wiped, although it is in use: kubelet runs"},
		"one that has an address of a Node": {usage: at, address: "host-1.example", node: node("idc-1", "", "192.0.2.7"), status: metav1.ConditionFalse, reason: infrav1.InUseReason,
			message: "IDCHost host-1 is in use: " + ofNode + `; set its spec.takeOver to "` + ofNode + `" if this machine may be wiped, or else delete the IDCHost`},
		"one that is reached at an address of a Node": {address: "192.0.2.7", node: node("idc-1", "aws:///zone/i-1", "192.0.2.7"), status: metav1.ConditionFalse, reason: infrav1.InUseReason,
			message: "IDCHost host-1 is in use: " + ofNode},
		"one that is beside a Node":                         {usage: at, node: node("idc-1", "", "192.0.2.70"), status: metav1.ConditionTrue, reason: infrav1.HealthyReason},
		"one that the Node of its last machine was on":      {usage: at, node: node("worker-1", "idc://team/host-1/id-1", "192.0.2.7"), status: metav1.ConditionTrue, reason: infrav1.HealthyReason},
		"one that the Node of an older controller is on":    {usage: at, node: node("worker-1", "idc://team/host-1", "192.0.2.7"), status: metav1.ConditionTrue, reason: infrav1.HealthyReason},
		"one that the Node of another of our hosts is on":   {usage: at, node: node("idc-1", "idc://team/host-10/id-1", "192.0.2.7"), status: metav1.ConditionFalse, reason: infrav1.InUseReason, message: ofNode},
		"one whose machine is a node, without its record":   {usage: runs, machine: provisioned, status: metav1.ConditionTrue, reason: infrav1.HealthyReason},
		"one whose machine is none yet, without its record": {usage: runs, machine: &infrav1.IDCMachine{}, status: metav1.ConditionFalse, reason: infrav1.InUseReason, message: kubelet},
		"one that carries a machine of others": {usage: ownership.Usage{Record: &records.Record{Namespace: "other", Name: "worker-9", InstanceID: "id-9"}}, takeOver: kubelet,
			status: metav1.ConditionFalse, reason: infrav1.InUseReason, message: "the host carries the IDCMachine other/worker-9 (instance id-9), of which this inventory does not know; find out"},
	} {
		t.Run(name, func(t *testing.T) {
			host := hostAt(test.address)
			host.Spec.TakeOver = test.takeOver
			var objects []client.Object
			if test.node != nil {
				objects = append(objects, test.node)
			}
			seen := hostSeen{facts: &probe.Facts{Usage: test.usage}}
			if err := seen.judge(t.Context(), withNodes(t, objects...), host, test.machine, ""); err != nil {
				t.Fatal(err)
			}
			got := healthy(seen, true)
			if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.message) || test.message == "" && got.Message != "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAProbeSaysTheSameAsLongAsNothingChanges(t *testing.T) {
	seen := func(kubelets ...string) hostSeen {
		return hostSeen{facts: &probe.Facts{Usage: ownership.Usage{Record: &records.Record{InstanceID: "id-1"}, Kubelets: kubelets}}}
	}
	a, b, c := seen().outcome("id-1"), seen().outcome("id-1"), seen("kubelet.service").outcome("id-1")
	if a.Text != b.Text || a.Text == c.Text {
		t.Errorf("%q, %q, %q", a.Text, b.Text, c.Text)
	}
	if a.Again != probeInterval || seen().outcome("id-2").Again != probeRetry {
		t.Error("a host that is somebody's is probed as seldom as another")
	}
}

// hostsBy is a hostclient.Client whose hosts answer, and are worked on, by functions.
type hostsBy struct {
	hostclient.Client
	probe     func() (*probe.Facts, *probe.Problem, error)
	bootstrap func(bootstrap.Machine) error
}

func (a *hostsBy) Probe(context.Context, *infrav1.IDCHost) (*probe.Facts, *probe.Problem, error) {
	return a.probe()
}

func (a *hostsBy) Bootstrap(_ context.Context, _ *infrav1.IDCHost, machine bootstrap.Machine) (bootstrap.Progress, error) {
	return bootstrap.Progress{}, a.bootstrap(machine)
}

// A clean-up removes the routes to these ranges.
func TestABootstrapKnowsTheRangesOfItsClustersPods(t *testing.T) {
	var visited bootstrap.Machine
	r := &MachineReconciler{Client: withNodes(t), work: once{}, Hosts: &hostsBy{bootstrap: func(machine bootstrap.Machine) error { visited = machine; return nil }}}
	s := &machineScope{machine: &infrav1.IDCMachine{}, owner: &clusterv1.Machine{}, cluster: &clusterv1.Cluster{}, claim: claims.Outcome{Host: hostAt("192.0.2.7")}}
	s.cluster.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.244.0.0/16", "fd00:10:244::/56"}
	if err := r.bootstrap(t.Context(), s); err != nil || !slices.Equal(visited.PodRanges, s.cluster.Spec.ClusterNetwork.Pods.CIDRBlocks) {
		t.Errorf("%+v, %v", visited, err)
	}
}

// once does a task within a reconcile.
type once map[background.Key]background.Outcome

func (o once) Run(key background.Key, task background.Task) (background.Outcome, bool) {
	if _, known := o[key]; !known {
		o[key] = task.Do(context.Background())
	}
	return o[key], true
}

func (o once) Withdraw(key background.Key) { delete(o, key) }
func (o once) Forget(client.ObjectKey)     { clear(o) }

// The status of a host is up to a minute old.
func TestAHostIsProbedBeforeItIsClaimed(t *testing.T) {
	usage, failure := ownership.Usage{}, error(nil)
	var problem *probe.Problem
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	r := &MachineReconciler{Client: withNodes(t, node("idc-1", "", "192.0.2.7")), Clock: clock, work: once{}, Hosts: &hostsBy{
		probe: func() (*probe.Facts, *probe.Problem, error) {
			if failure != nil {
				return nil, nil, failure
			}
			return &probe.Facts{Usage: usage}, problem, nil
		},
	}}
	machine := &infrav1.IDCMachine{Spec: infrav1.IDCMachineSpec{InstanceID: "id-1"}}
	for _, step := range []struct {
		when    string
		usage   ownership.Usage
		problem *probe.Problem
		failure error
		address string
		after   time.Duration
		want    claims.Check
	}{
		{"free", ownership.Usage{}, nil, nil, "192.0.2.8", 0, claims.Check{Known: true}},
		{"a kubelet runs since a second", ownership.Usage{Kubelets: []string{"kubelet.service"}}, nil, nil, "192.0.2.8", time.Second, claims.Check{Known: true}},
		{"a kubelet runs since a while", ownership.Usage{Kubelets: []string{"kubelet.service"}}, nil, nil, "192.0.2.8", 2 * checkHolds, claims.Check{Known: true, Refusal: claims.InUseByOthers,
			Detail: `IDCHost host-1 is in use: kubelet runs; set its spec.takeOver to "kubelet runs" if this machine may be wiped, or else delete the IDCHost`}},
		{"free again", ownership.Usage{}, nil, nil, "192.0.2.8", 2 * checkHolds, claims.Check{Known: true}},
		{"a Node has its address", ownership.Usage{}, nil, nil, "192.0.2.7", 0, claims.Check{Known: true, Refusal: claims.InUseByOthers,
			Detail: `IDCHost host-1 is in use: the host cluster's Node idc-1 has the address 192.0.2.7; set its spec.takeOver to "the host cluster's Node idc-1 has the address 192.0.2.7" if this machine may be wiped, or else delete the IDCHost`}},
		{"its disk is full", ownership.Usage{}, &probe.Problem{Reason: probe.DiskFull, Message: "no room"}, nil, "192.0.2.8", 2 * checkHolds, claims.Check{Known: true, Refusal: claims.NotHealthy}},
		{"it is away", ownership.Usage{}, nil, errors.New("no route"), "192.0.2.8", 2 * checkHolds, claims.Check{Known: true, Refusal: "without an answer, see their conditions"}},
		{"it is back, and others are asked meanwhile", ownership.Usage{}, nil, nil, "192.0.2.8", silenceHolds, claims.Check{Known: true, Refusal: "without an answer, see their conditions"}},
		{"it is back since a while", ownership.Usage{}, nil, nil, "192.0.2.8", time.Second, claims.Check{Known: true}},
	} {
		usage, problem, failure = step.usage, step.problem, step.failure
		clock.Step(step.after)
		got, err := r.checkHost(t.Context(), machine, hostAt(step.address))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s", step.when, diff)
		}
	}
}

func TestAVisitKnowsTheNodesThatAreThereByThen(t *testing.T) {
	cluster := withNodes(t)
	var visited bootstrap.Machine
	r := &MachineReconciler{Client: cluster, Hosts: &hostsBy{bootstrap: func(machine bootstrap.Machine) error { visited = machine; return nil }}}
	host := hostAt("192.0.2.7")
	host.Spec.TakeOver = "kubelet runs"
	for range 2 {
		if _, err := r.bootstrapOnce(t.Context(), host, bootstrap.Machine{Claimant: ownership.Claimant{InstanceID: "id-1"}}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(visited.Nodes); visited.InstanceID != "id-1" || visited.Reached.String() != "192.0.2.7" || visited.TakeOver != "kubelet runs" || got != "[]" && got != "[{idc-1 [192.0.2.7]}]" {
			t.Errorf("%+v", visited)
		}
		if err := cluster.Create(t.Context(), node("idc-1", "", "192.0.2.7")); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	if len(visited.Nodes) != 1 {
		t.Errorf("%+v", visited)
	}
}

// A machine that was kept off a host leaves it to those who have it. One that was on it leaves it clean, or in quarantine.
func TestAHostThatWasNeverOursIsGivenBackAsItIs(t *testing.T) {
	noRecord := &hostclient.HostError{Err: &cleanup.UncleanError{Left: []string{"file /etc/kubernetes/kubelet.conf"}, NoRecord: true}}
	for name, test := range map[string]struct {
		reason      string
		provisioned bool
		err         error
		quarantined bool
	}{
		"refused, and nothing of ours is there":     {infrav1.InUseReason, false, noRecord, false},
		"refused, and another machine is there":     {infrav1.InUseReason, false, &hostclient.HostError{Err: &ownership.InUseError{Record: &records.Record{}}}, false},
		"refused, and something of ours is left":    {infrav1.InUseReason, false, &hostclient.HostError{Err: &cleanup.UncleanError{Left: []string{"mount /data"}}}, true},
		"a node, whose record is gone":              {infrav1.InUseReason, true, noRecord, true},
		"half bootstrapped, and its record is gone": {infrav1.BootstrapFailedReason, false, noRecord, true},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &infrav1.IDCMachine{Spec: infrav1.IDCMachineSpec{InstanceID: "id-1"}}
			machine.DeletionTimestamp = ptr.To(metav1.Now())
			conditions.Set(machine, condition(infrav1.BootstrappedCondition, metav1.ConditionFalse, test.reason, "x"))
			machine.Status.Initialization.Provisioned = &test.provisioned
			r := &MachineReconciler{Clock: clocktesting.NewFakePassiveClock(time.Now()), Hosts: &cleaner{clean: func(context.Context) error { return test.err }}}
			r.work = tried{}
			quarantine, message := r.cleanUp(machine, hostAt("192.0.2.7"))
			if (quarantine != nil) != test.quarantined || message != "" {
				t.Errorf("%+v, %q", quarantine, message)
			}
		})
	}
}

// tried does a task until it gives up.
type tried struct{ runner }

func (tried) Run(_ background.Key, task background.Task) (outcome background.Outcome, _ bool) {
	for range cleanUpTries {
		outcome = task.Do(context.Background())
	}
	return outcome, true
}

func TestANodeWakesTheHostsAtItsAddressesAndNoOther(t *testing.T) {
	byName, own := hostAt("host-1.example"), hostAt("192.0.2.7")
	byName.Name, byName.Status.Addresses = "by-name", []string{"192.0.2.7"}
	other := hostAt("192.0.2.70")
	other.Name = "other"
	r := &HostReconciler{Client: withNodes(t, byName, own, other)}
	var woken []string
	for _, request := range r.nodeToHosts(t.Context(), node("idc-1", "", "192.0.2.7", "2001:db8::7")) {
		woken = append(woken, request.Name)
	}
	if diff := cmp.Diff([]string{"by-name", "host-1"}, woken); diff != "" {
		t.Error(diff)
	}
	before, after := node("idc-1", "", "192.0.2.7"), node("idc-1", "", "192.0.2.7")
	after.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
	if nodes.Changes.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a heartbeat wakes")
	}
	if !nodes.Changes.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: node("idc-1", "", "192.0.2.8")}) {
		t.Error("another address wakes nobody")
	}
}
