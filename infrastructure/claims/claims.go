// Package claims gives machines their hosts, and takes hosts back. A host never has two machines, and a machine never has two
// hosts: each write carries the resource version that it was decided on, and fails when another write was faster. The next
// call finishes or undoes a claim that was cut off. The function choose is pure: it decides which hosts a machine may have.
package claims

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// Outcome is how a claim went.
type Outcome struct {
	// Host is the machine's; nil when it has none.
	Host *infrav1.IDCHost
	// Problem says why the machine has no host, and the way out. It is empty when another write was faster: then the next try
	// may succeed.
	Problem string
	// Reason goes with Problem.
	Reason string
	// Checking is true while Check has not ended for a host that the machine may claim.
	Checking bool
}

// Check says whether a machine may claim a host.
type Check struct {
	// Known is false until the probe of the host has ended.
	Known bool
	// Refusal says why the machine may not claim the host; empty when it may. It is the same text for all hosts with the same
	// fault.
	Refusal string
	// Detail says more about a host that is in use, and what to do.
	Detail string
}

// Checker checks, right before a machine claims a host, that the host is still free: its status is up to a minute old.
type Checker func(ctx context.Context, machine *infrav1.IDCMachine, host *infrav1.IDCHost) (Check, error)

// Claims reserves hosts for machines.
type Claims struct {
	// Client writes, and lists from a cache.
	Client client.Client
	// Live reads from the API server: what a cache has never decides a claim.
	Live client.Reader
	// Check is called before a claim. It may be nil for code that claims no host.
	Check Checker
}

// Claim gives a machine its host, or finds the one it has. It updates machine to what the API server has. Every write
// carries the resource version that it was decided on: a conflict means that another write was faster.
func (c *Claims) Claim(ctx context.Context, machine *infrav1.IDCMachine, failureDomain string) (Outcome, error) {
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(machine), machine); err != nil {
		return Outcome{}, err
	}
	if !machine.DeletionTimestamp.IsZero() {
		return Outcome{}, nil
	}
	if machine.Spec.HostRef == nil {
		chosen, err := c.choose(ctx, machine, failureDomain)
		if err != nil || chosen.Host == nil {
			return chosen, err
		}
		if err := c.patchMachine(ctx, machine, func() { machine.Spec.HostRef = &infrav1.HostReference{Name: chosen.Host.Name} }); err != nil {
			return Outcome{}, fmt.Errorf("name IDCHost %s in the machine: %w", chosen.Host.Name, err)
		}
	}
	host := &infrav1.IDCHost{}
	err := c.Live.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.HostRef.Name}, host)
	if apierrors.IsNotFound(err) {
		return c.lost(ctx, machine, "is gone")
	}
	if err != nil {
		return Outcome{}, fmt.Errorf("read the machine's host: %w", err)
	}
	mine := ClaimedBy(host, machine)
	if why := taken(host); !mine && (why != "" || machine.Spec.ProviderID != "") {
		return c.lost(ctx, machine, why)
	}
	if !mine {
		check, err := c.Check(ctx, machine, host)
		switch {
		case err != nil:
			return Outcome{}, err
		case !check.Known:
			return Outcome{Checking: true}, nil
		case check.Refusal != "":
			return c.lost(ctx, machine, "is "+check.Refusal)
		}
	}
	// A restore or a person may have removed the finalizer of a claimed host.
	if !mine || host.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(host, infrav1.IDCHostFinalizer) {
		if err := c.reserve(ctx, host, machine); err != nil {
			return Outcome{}, err
		}
	}
	if machine.Spec.ProviderID == "" {
		if err := c.patchMachine(ctx, machine, func() { machine.Spec.ProviderID = providerID(host, machine) }); err != nil {
			return Outcome{}, fmt.Errorf("write the provider ID: %w", err)
		}
	}
	return Outcome{Host: host}, nil
}

// providerID identifies a machine in its Machine and its Node. Two machines never have the same one, not even one after the
// other on one host: Cluster API finds the Node by it, and the Node of the first may still be there.
func providerID(host *infrav1.IDCHost, machine *infrav1.IDCMachine) string {
	return "idc://" + host.Namespace + "/" + host.Name + "/" + machine.Spec.InstanceID
}

// choose finds a host that is free by its status, and by a probe right now.
func (c *Claims) choose(ctx context.Context, machine *infrav1.IDCMachine, failureDomain string) (Outcome, error) {
	list := &infrav1.IDCHostList{}
	if err := c.Client.List(ctx, list, client.InNamespace(machine.Namespace)); err != nil {
		return Outcome{}, fmt.Errorf("list the hosts: %w", err)
	}
	found, err := choose(machine, failureDomain, list.Items)
	if err != nil {
		return Outcome{}, err
	}
	for _, host := range found.hosts {
		if ClaimedBy(host, machine) {
			return Outcome{Host: host}, nil
		}
		check, err := c.Check(ctx, machine, host)
		switch {
		case err != nil:
			return Outcome{}, err
		case !check.Known:
			return Outcome{Checking: true}, nil
		case check.Refusal == "":
			return Outcome{Host: host}, nil
		}
		found.reject(host, check.Refusal, check.Detail)
	}
	return Outcome{Reason: infrav1.NoHostReason, Problem: found.message(machine.Namespace)}, nil
}

// taken says why no machine can claim the host; empty when one can.
func taken(host *infrav1.IDCHost) string {
	switch {
	case host.Spec.Claim != nil:
		return "is claimed by IDCMachine " + host.Spec.Claim.Name
	case host.Spec.Quarantine != nil:
		return "is in quarantine: " + host.Spec.Quarantine.Reason
	case host.Spec.UncleanInstanceID != "":
		return "is to be cleaned first"
	case !host.DeletionTimestamp.IsZero():
		return "is being deleted"
	case annotations.HasPaused(host):
		return "is paused by a person"
	default:
		return ""
	}
}

// lost makes the machine look for another host while nothing was done on its first one. Later it reports the loss for a
// person.
func (c *Claims) lost(ctx context.Context, machine *infrav1.IDCMachine, why string) (Outcome, error) {
	name := machine.Spec.HostRef.Name
	if machine.Spec.ProviderID == "" {
		ctrl.LoggerFrom(ctx).Info("The host cannot be had; looking for another one", "IDCHost", klog.KRef(machine.Namespace, name), "reason", why)
		if err := c.patchMachine(ctx, machine, func() { machine.Spec.HostRef = nil }); err != nil {
			return Outcome{}, fmt.Errorf("forget IDCHost %s: %w", name, err)
		}
		return Outcome{}, nil
	}
	if why == "" {
		why = "is no longer claimed by this machine"
	}
	return Outcome{
		Reason:  infrav1.HostLostReason,
		Problem: fmt.Sprintf("IDCHost %s %s; delete the Machine, its replacement gets another host", name, why),
	}, nil
}

// reserve writes the claim of a free host, and with it the finalizer, so that nobody deletes a claimed IDCHost.
func (c *Claims) reserve(ctx context.Context, host *infrav1.IDCHost, machine *infrav1.IDCMachine) error {
	err := c.patchHost(ctx, host, func() {
		host.Spec.Claim = &infrav1.HostClaim{Name: machine.Name, InstanceID: machine.Spec.InstanceID}
		controllerutil.AddFinalizer(host, infrav1.IDCHostFinalizer)
	})
	if err != nil {
		return fmt.Errorf("claim IDCHost %s: %w", host.Name, err)
	}
	return nil
}

// Held returns the host that a machine has claimed; nil without one. Usually the machine names it. Only when it does not,
// because a write is missing, all hosts are read.
func (c *Claims) Held(ctx context.Context, machine *infrav1.IDCMachine) (*infrav1.IDCHost, error) {
	if machine.Spec.InstanceID == "" {
		return nil, nil
	}
	if machine.Spec.HostRef != nil {
		host := &infrav1.IDCHost{}
		err := c.Live.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.HostRef.Name}, host)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the machine's host: %w", err)
		}
		if err == nil && ClaimedBy(host, machine) {
			return host, nil
		}
	}
	list := &infrav1.IDCHostList{}
	if err := c.Live.List(ctx, list, client.InNamespace(machine.Namespace)); err != nil {
		return nil, fmt.Errorf("list the hosts: %w", err)
	}
	for i := range list.Items {
		if ClaimedBy(&list.Items[i], machine) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

func (c *Claims) patchMachine(ctx context.Context, machine *infrav1.IDCMachine, change func()) error {
	before := machine.DeepCopy()
	change()
	return c.Client.Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (c *Claims) patchHost(ctx context.Context, host *infrav1.IDCHost, change func()) error {
	before := host.DeepCopy()
	change()
	return c.Client.Patch(ctx, host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
