package controllers

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// askedFor is how long the answer of a host holds for a claim.
const askedFor = 10 * time.Second

// answer is what a host said when a machine was about to claim it.
type answer struct {
	// known is false until the host answered.
	known bool
	// refusal says why the machine does not claim it, in the same words for all hosts with the same fault; empty when it may.
	refusal string
	// detail says more about a host that is in use, and what to do.
	detail string
}

// asker asks a host that looks free before a machine claims it. Its status is up to a minute old.
type asker func(ctx context.Context, machine *infrav1.IDCMachine, host *infrav1.IDCHost) (answer, error)

// heard is what a host said, and when.
type heard struct {
	hostSeen
	at time.Time
}

// askHost is an asker. The answer wakes the reconcile of the machine.
func (r *MachineReconciler) askHost(ctx context.Context, machine *infrav1.IDCMachine, host *infrav1.IDCHost) (answer, error) {
	host = host.DeepCopy()
	key := background.Key{Object: client.ObjectKeyFromObject(machine), Kind: "ask " + host.Name}
	task := background.Task{
		Identity: accessOf(host),
		Timeout:  probeTimeout,
		Do: func(ctx context.Context) background.Outcome {
			seen := heard{}
			seen.facts, seen.problem, seen.err = r.Operator.Probe(ctx, host)
			seen.at = r.Clock.Now()
			// Every answer wakes: one that is the same as before is another one.
			return background.Outcome{Text: seen.at.String(), Value: seen}
		},
	}
	outcome, known := r.work.Run(key, task)
	if said, ok := outcome.Value.(heard); known && ok && r.Clock.Since(said.at) > askedFor {
		r.work.Withdraw(key)
		outcome, known = r.work.Run(key, task)
	}
	if !known {
		return answer{}, nil
	}
	seen, ok := outcome.Value.(heard)
	if !ok { // It panicked.
		seen.err = errors.New(outcome.Text)
	}
	if err := seen.judge(ctx, r.Client, host, nil, machine.Spec.InstanceID); err != nil {
		return answer{}, err
	}
	said := answer{known: true}
	switch {
	case seen.err != nil:
		said.refusal = "without an answer, see their conditions"
		ctrl.LoggerFrom(ctx).Info("The host is not claimed: it does not answer", "IDCHost", klog.KObj(host), "err", seen.err)
	case seen.problem != nil && seen.problem.Reason == hosts.InUse:
		said.refusal, said.detail = inUseByOthers, seen.problem.Message
		ctrl.LoggerFrom(ctx).Info("The host is not claimed: it is in use", "IDCHost", klog.KObj(host), "reason", said.detail)
	case seen.problem != nil:
		said.refusal = notHealthy
		ctrl.LoggerFrom(ctx).Info("The host is not claimed: it is not healthy", "IDCHost", klog.KObj(host), "reason", seen.problem.Message)
	}
	return said, nil
}
