package controllers

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/claims"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// checkHolds is how long the probe before a claim counts. Where the host did not answer, silenceHolds: a probe of such a host takes long, and
// among several of them the machine would ask the first one again before it comes to the last.
const (
	checkHolds   = 10 * time.Second
	silenceHolds = 2*probeTimeout + checkHolds
)

// timedProbe is what a probe saw, and when.
type timedProbe struct {
	hostSeen
	at time.Time
}

// holds is how long it counts.
func (p *timedProbe) holds() time.Duration {
	if p.err != nil {
		return silenceHolds
	}
	return checkHolds
}

// checkHost is a claims.Checker that probes the host in the background. The end of the probe wakes the reconcile of the machine.
func (r *MachineReconciler) checkHost(ctx context.Context, machine *infrav1.IDCMachine, host *infrav1.IDCHost) (claims.Check, error) {
	host = host.DeepCopy()
	key := background.Key{Object: client.ObjectKeyFromObject(machine), Kind: "check " + host.Name}
	task := background.Task{
		Identity: hostclient.Access(host),
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
	if last, ok := outcome.Value.(timedProbe); known && ok && r.Clock.Since(last.at) > last.holds() {
		r.work.Withdraw(key)
		outcome, known = r.work.Run(key, task)
	}
	if !known {
		return claims.Check{}, nil
	}
	seen, ok := outcome.Value.(timedProbe)
	if !ok { // It panicked.
		seen.err = errors.New(outcome.Text)
	}
	if err := seen.judge(ctx, r.Client, host, nil, machine.Spec.InstanceID); err != nil {
		return claims.Check{}, err
	}
	check := claims.Check{Known: true}
	switch {
	case seen.err != nil:
		check.Refusal = "without an answer, see their conditions"
		ctrl.LoggerFrom(ctx).Info("The host is not claimed: it does not answer", "IDCHost", klog.KObj(host), "err", seen.err)
	case seen.problem != nil && seen.problem.Reason == probe.InUse:
		check.Refusal, check.Detail = claims.InUseByOthers, seen.problem.Message
		ctrl.LoggerFrom(ctx).Info("The host is not claimed: it is in use", "IDCHost", klog.KObj(host), "reason", check.Detail)
	case seen.problem != nil:
		check.Refusal = claims.NotHealthy
		ctrl.LoggerFrom(ctx).Info("The host is not claimed: it is not healthy", "IDCHost", klog.KObj(host), "reason", seen.problem.Message)
	}
	return check, nil
}
