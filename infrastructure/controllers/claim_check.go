package controllers

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// checkHolds is how long the probe before a claim counts.
const checkHolds = 10 * time.Second

// claimCheck says whether a machine may claim a host.
type claimCheck struct {
	// known is false until the probe of the host has ended.
	known bool
	// refusal says why the machine does not claim it, in the same words for all hosts with the same fault; empty when it may.
	refusal string
	// detail says more about a host that is in use, and what to do.
	detail string
}

// hostChecker checks a host that looks free right before a machine claims it: its status is up to a minute old.
type hostChecker func(ctx context.Context, machine *infrav1.IDCMachine, host *infrav1.IDCHost) (claimCheck, error)

// timedProbe is what a probe saw, and when.
type timedProbe struct {
	hostSeen
	at time.Time
}

// checkHost is a hostChecker that probes the host in the background. The end of the probe wakes the reconcile of the machine.
func (r *MachineReconciler) checkHost(ctx context.Context, machine *infrav1.IDCMachine, host *infrav1.IDCHost) (claimCheck, error) {
	host = host.DeepCopy()
	key := background.Key{Object: client.ObjectKeyFromObject(machine), Kind: "check " + host.Name}
	task := background.Task{
		Identity: accessOf(host),
		Timeout:  probeTimeout,
		Do: func(ctx context.Context) background.Outcome {
			seen := timedProbe{}
			seen.facts, seen.problem, seen.err = r.Hosts.Probe(ctx, host)
			seen.at = r.Clock.Now()
			// The time makes every outcome differ, so that each one wakes the machine.
			return background.Outcome{Text: seen.at.String(), Value: seen}
		},
	}
	outcome, known := r.work.Run(key, task)
	if last, ok := outcome.Value.(timedProbe); known && ok && r.Clock.Since(last.at) > checkHolds {
		r.work.Withdraw(key)
		outcome, known = r.work.Run(key, task)
	}
	if !known {
		return claimCheck{}, nil
	}
	seen, ok := outcome.Value.(timedProbe)
	if !ok { // It panicked.
		seen.err = errors.New(outcome.Text)
	}
	if err := seen.judge(ctx, r.Client, host, nil, machine.Spec.InstanceID); err != nil {
		return claimCheck{}, err
	}
	check := claimCheck{known: true}
	switch {
	case seen.err != nil:
		check.refusal = "without an answer, see their conditions"
		ctrl.LoggerFrom(ctx).Info("The host is not claimed: it does not answer", "IDCHost", klog.KObj(host), "err", seen.err)
	case seen.problem != nil && seen.problem.Reason == probe.InUse:
		check.refusal, check.detail = inUseByOthers, seen.problem.Message
		ctrl.LoggerFrom(ctx).Info("The host is not claimed: it is in use", "IDCHost", klog.KObj(host), "reason", check.detail)
	case seen.problem != nil:
		check.refusal = notHealthy
		ctrl.LoggerFrom(ctx).Info("The host is not claimed: it is not healthy", "IDCHost", klog.KObj(host), "reason", seen.problem.Message)
	}
	return check, nil
}
