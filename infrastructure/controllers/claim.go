package controllers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// claimed is how a claim went.
type claimed struct {
	// host is the machine's; nil when it has none.
	host *infrav1.IDCHost
	// problem says why it has none, and the way out. It is empty when the next try may succeed, because another write was
	// faster.
	problem string
	// reason goes with problem.
	reason string
	// checking is true while a host is checked before its claim.
	checking bool
}

// claims reserves hosts for machines.
type claims struct {
	// Client writes, and lists from a cache.
	client.Client
	// live reads from the API server: a claim is never decided on what a cache has.
	live client.Reader
	// check is called before a claim. It may be nil for code that claims no host.
	check hostChecker
}

// claim gives a machine its host, or finds the one it has. It updates machine to what the API server has. Every write
// carries the resource version that it was decided on: a conflict means that another write was faster.
func (c *claims) claim(ctx context.Context, machine *infrav1.IDCMachine, failureDomain string) (claimed, error) {
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(machine), machine); err != nil {
		return claimed{}, err
	}
	if !machine.DeletionTimestamp.IsZero() {
		return claimed{}, nil
	}
	if machine.Spec.HostRef == nil {
		chosen, err := c.choose(ctx, machine, failureDomain)
		if err != nil || chosen.host == nil {
			return chosen, err
		}
		if err := c.patchMachine(ctx, machine, func() { machine.Spec.HostRef = &infrav1.HostReference{Name: chosen.host.Name} }); err != nil {
			return claimed{}, fmt.Errorf("name IDCHost %s in the machine: %w", chosen.host.Name, err)
		}
	}
	host := &infrav1.IDCHost{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.HostRef.Name}, host)
	if apierrors.IsNotFound(err) {
		return c.lost(ctx, machine, "is gone")
	}
	if err != nil {
		return claimed{}, fmt.Errorf("read the machine's host: %w", err)
	}
	mine := claimedBy(host, machine)
	if why := taken(host); !mine && (why != "" || machine.Spec.ProviderID != "") {
		return c.lost(ctx, machine, why)
	}
	if !mine {
		check, err := c.check(ctx, machine, host)
		switch {
		case err != nil:
			return claimed{}, err
		case !check.known:
			return claimed{checking: true}, nil
		case check.refusal != "":
			return c.lost(ctx, machine, "is "+check.refusal)
		}
	}
	// A restore or a person may have removed the finalizer of a claimed host.
	if !mine || host.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(host, infrav1.IDCHostFinalizer) {
		if err := c.reserve(ctx, host, machine); err != nil {
			return claimed{}, err
		}
	}
	if machine.Spec.ProviderID == "" {
		if err := c.patchMachine(ctx, machine, func() { machine.Spec.ProviderID = providerID(host, machine) }); err != nil {
			return claimed{}, fmt.Errorf("write the provider ID: %w", err)
		}
	}
	return claimed{host: host}, nil
}

// providerID identifies a machine in its Machine and its Node. Two machines never have the same one, not even one after the
// other on one host: Cluster API finds the Node by it, and the Node of the first may still be there.
func providerID(host *infrav1.IDCHost, machine *infrav1.IDCMachine) string {
	return "idc://" + host.Namespace + "/" + host.Name + "/" + machine.Spec.InstanceID
}

// choose finds a host that is free by its status, and by a probe right now.
func (c *claims) choose(ctx context.Context, machine *infrav1.IDCMachine, failureDomain string) (claimed, error) {
	list := &infrav1.IDCHostList{}
	if err := c.List(ctx, list, client.InNamespace(machine.Namespace)); err != nil {
		return claimed{}, fmt.Errorf("list the hosts: %w", err)
	}
	found, err := choose(machine, failureDomain, list.Items)
	if err != nil {
		return claimed{}, err
	}
	for _, host := range found.hosts {
		if claimedBy(host, machine) {
			return claimed{host: host}, nil
		}
		check, err := c.check(ctx, machine, host)
		switch {
		case err != nil:
			return claimed{}, err
		case !check.known:
			return claimed{checking: true}, nil
		case check.refusal == "":
			return claimed{host: host}, nil
		}
		found.reject(host, check.refusal, check.detail)
	}
	return claimed{reason: infrav1.NoHostReason, problem: found.message(machine.Namespace)}, nil
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
	default:
		return ""
	}
}

// lost makes the machine look for another host while nothing was done on its first one. Later it reports the loss for a
// person.
func (c *claims) lost(ctx context.Context, machine *infrav1.IDCMachine, why string) (claimed, error) {
	name := machine.Spec.HostRef.Name
	if machine.Spec.ProviderID == "" {
		ctrl.LoggerFrom(ctx).Info("The host cannot be had; looking for another one", "IDCHost", klog.KRef(machine.Namespace, name), "reason", why)
		if err := c.patchMachine(ctx, machine, func() { machine.Spec.HostRef = nil }); err != nil {
			return claimed{}, fmt.Errorf("forget IDCHost %s: %w", name, err)
		}
		return claimed{}, nil
	}
	if why == "" {
		why = "is no longer claimed by this machine"
	}
	return claimed{
		reason:  infrav1.HostLostReason,
		problem: fmt.Sprintf("IDCHost %s %s; delete the Machine, its replacement gets another host", name, why),
	}, nil
}

// reserve writes the claim of a free host, and with it the finalizer, so that nobody deletes a claimed IDCHost.
func (c *claims) reserve(ctx context.Context, host *infrav1.IDCHost, machine *infrav1.IDCMachine) error {
	err := c.patchHost(ctx, host, func() {
		host.Spec.Claim = &infrav1.HostClaim{Name: machine.Name, InstanceID: machine.Spec.InstanceID}
		controllerutil.AddFinalizer(host, infrav1.IDCHostFinalizer)
	})
	if err != nil {
		return fmt.Errorf("claim IDCHost %s: %w", host.Name, err)
	}
	return nil
}

// release ends the claim of a host, and begins a quarantine unless it is nil. A person's quarantine stays until that person
// removes it. The host is cleaned up only then, because the person may be working on it.
func (c *claims) release(ctx context.Context, host *infrav1.IDCHost, quarantine *infrav1.HostQuarantine) error {
	err := c.patchHost(ctx, host, func() {
		host.Spec.Claim = nil
		if quarantine != nil && byPerson(host) {
			host.Spec.UncleanInstanceID = quarantine.InstanceID
			quarantine = &infrav1.HostQuarantine{
				Since: host.Spec.Quarantine.Since, Reason: shorten(host.Spec.Quarantine.Reason + "; " + quarantine.Reason),
			}
		}
		if quarantine != nil {
			host.Spec.Quarantine = quarantine
		}
		controllerutil.RemoveFinalizer(host, infrav1.IDCHostFinalizer)
	})
	if err != nil {
		return fmt.Errorf("release IDCHost %s: %w", host.Name, err)
	}
	return nil
}

// byPerson reports whether a person put a claimed host into quarantine. The controller itself does so only when it
// releases the host.
func byPerson(host *infrav1.IDCHost) bool {
	return host.Spec.Quarantine != nil && host.Spec.Quarantine.InstanceID == ""
}

// held returns the host that a machine has claimed; nil without one. Usually the machine names it. Only when it does not,
// because a write is missing, all hosts are read.
func (c *claims) held(ctx context.Context, machine *infrav1.IDCMachine) (*infrav1.IDCHost, error) {
	if machine.Spec.InstanceID == "" {
		return nil, nil
	}
	if machine.Spec.HostRef != nil {
		host := &infrav1.IDCHost{}
		err := c.live.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.HostRef.Name}, host)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the machine's host: %w", err)
		}
		if err == nil && claimedBy(host, machine) {
			return host, nil
		}
	}
	list := &infrav1.IDCHostList{}
	if err := c.live.List(ctx, list, client.InNamespace(machine.Namespace)); err != nil {
		return nil, fmt.Errorf("list the hosts: %w", err)
	}
	for i := range list.Items {
		if claimedBy(&list.Items[i], machine) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

func (c *claims) patchMachine(ctx context.Context, machine *infrav1.IDCMachine, change func()) error {
	before := machine.DeepCopy()
	change()
	return c.Patch(ctx, machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (c *claims) patchHost(ctx context.Context, host *infrav1.IDCHost, change func()) error {
	before := host.DeepCopy()
	change()
	return c.Patch(ctx, host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
