//go:build envtest

package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// fleet stands for the hosts of a data centre. What is done on a host is tested in package hosts; here
// is which host gets what done, and what is told of it. It fails the test when two machines meet on one
// host.
type fleet struct {
	t *testing.T
	// shared is true where two managers, each by itself, may work on one host for the same machine.
	shared bool

	lock  sync.Mutex
	hosts map[string]*machineHost
}

// machineHost is one host.
type machineHost struct {
	// machine is the instance ID of the machine that it carries, data its bootstrap data.
	machine, data string
	// bootstraps and cleanUps count what was done.
	bootstraps, cleanUps int
	// under is how many tasks work on it, underFor the instance ID of the machine that the last one began for.
	under    int
	underFor string
	// usage is what it shows of somebody who is not of this fleet.
	usage ownership.Usage
	// slow makes a clean-up last until it is told to end.
	slow bool
	// What goes wrong on it; nothing goes wrong by itself.
	reach    error
	problem  *probe.Problem
	fails    *bootstrap.Progress
	cleanErr error
}

func newFleet(t *testing.T) *fleet { return &fleet{t: t, hosts: map[string]*machineHost{}} }

// edit changes a host, which it makes if need be, and returns what it is then.
func (f *fleet) edit(name string, change func(*machineHost)) machineHost {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.hosts[name] == nil {
		f.hosts[name] = &machineHost{}
	}
	if change != nil {
		change(f.hosts[name])
	}
	return *f.hosts[name]
}

func (f *fleet) enter(name, instanceID string) {
	f.edit(name, func(h *machineHost) {
		if h.under > 0 && (!f.shared || h.underFor != instanceID) {
			f.t.Errorf("two tasks work on %s, for %s and %s", name, h.underFor, instanceID)
		}
		h.under++
		h.underFor = instanceID
	})
}

func (f *fleet) leave(name string) { f.edit(name, func(h *machineHost) { h.under-- }) }

// shows is what the host shows of its user. A machine of ours has a record, and runs a kubelet as others do.
func (h *machineHost) shows() ownership.Usage {
	usage := h.usage
	usage.Addresses = append([]netip.Addr{netip.MustParseAddr("198.51.100.7")}, usage.Addresses...)
	if h.machine != "" {
		usage.Record = &records.Record{Namespace: "fleet", Name: h.machine, InstanceID: h.machine}
		usage.Kubelets, usage.Kubeconfig = []string{"kubelet.service"}, true
	}
	return usage
}

func (f *fleet) Probe(_ context.Context, host *infrav1.IDCHost) (*probe.Facts, *probe.Problem, error) {
	h := f.edit(host.Name, nil)
	if h.reach != nil {
		return nil, nil, h.reach
	}
	return &probe.Facts{Architecture: "amd64", OSImage: "Debian", CPUs: 4, Memory: 8 << 30, Programs: []string{"containerd"}, Usage: h.shows()}, h.problem, nil
}

func (f *fleet) Bootstrap(_ context.Context, host *infrav1.IDCHost, machine bootstrap.Machine) (bootstrap.Progress, error) {
	f.enter(host.Name, machine.InstanceID)
	defer f.leave(host.Name)
	var progress bootstrap.Progress
	var err error
	f.edit(host.Name, func(h *machineHost) {
		if h.machine != "" && h.machine != machine.InstanceID {
			f.t.Errorf("machine %s (%s) is bootstrapped on %s, which carries %s", machine.Name, machine.InstanceID, host.Name, h.machine)
		}
		switch {
		case h.reach != nil:
			err = h.reach
		case h.problem != nil:
			err = &bootstrap.ProblemError{Problem: *h.problem, Err: errors.New("a command failed")}
		case h.machine == machine.InstanceID && h.fails == nil:
			progress.State = bootstrap.Done
		case len(machine.UserData) == 0:
			err = bootstrap.ErrNoBootstrapData
		case h.machine == "" && f.refuses(h, &machine) != nil:
			err = &hostclient.HostError{Err: f.refuses(h, &machine)}
		case h.fails != nil && h.data == string(machine.UserData):
			progress = *h.fails
		default:
			h.machine, h.data, h.usage = machine.InstanceID, string(machine.UserData), ownership.Usage{}
			h.bootstraps++
			progress = bootstrap.Progress{State: bootstrap.Running, Detail: "cloud-init: Running in stage: modules-final"}
		}
	})
	return progress, err
}

// refuses is what hosts.Bootstrap does before its first change.
func (f *fleet) refuses(h *machineHost, machine *bootstrap.Machine) error {
	usage := h.shows()
	found := ownership.Judge(&usage, &machine.Claimant)
	return found.Err()
}

func (f *fleet) CleanUp(ctx context.Context, host *infrav1.IDCHost, instanceID string) error {
	f.enter(host.Name, instanceID)
	defer f.leave(host.Name)
	if f.edit(host.Name, nil).slow {
		<-ctx.Done()
		return ctx.Err()
	}
	var err error
	f.edit(host.Name, func(h *machineHost) {
		switch {
		case h.reach != nil:
			err = h.reach
		case h.machine == "" && h.usage.Kubeconfig:
			err = &hostclient.HostError{Err: &cleanup.UncleanError{Left: []string{"file /etc/kubernetes/kubelet.conf"}, NoRecord: true}}
		case h.machine == "":
		case h.machine != instanceID:
			f.t.Errorf("%s is cleaned for %s and carries %s", host.Name, instanceID, h.machine)
			err = fmt.Errorf("in use")
		case h.cleanErr != nil:
			h.cleanUps++
			err = &hostclient.HostError{Err: h.cleanErr}
		default:
			h.cleanUps++
			h.machine, h.data = "", ""
		}
	})
	return err
}

// inline does tasks within a reconcile, so that a test knows when all is done.
type inline struct {
	tasks map[background.Key]*inlineTask
}

type inlineTask struct {
	identity string
	outcome  background.Outcome
}

func newInline() *inline { return &inline{tasks: map[background.Key]*inlineTask{}} }

func (r *inline) Run(key background.Key, task background.Task) (background.Outcome, bool) {
	known := r.tasks[key]
	if known == nil || known.identity != task.Identity || known.outcome.Again > 0 {
		known = &inlineTask{identity: task.Identity, outcome: task.Do(context.Background())}
		r.tasks[key] = known
	}
	return known.outcome, true
}

func (r *inline) Withdraw(key background.Key) { delete(r.tasks, key) }

func (r *inline) Forget(object client.ObjectKey) {
	for key := range r.tasks {
		if key.Object == object {
			delete(r.tasks, key)
		}
	}
}
