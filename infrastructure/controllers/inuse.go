package controllers

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/nodes"
)

// judge decides whose the host is, by the facts of the last probe and the Nodes and machines that are known now.
func (s *hostSeen) judge(ctx context.Context, reader client.Reader, host *infrav1.IDCHost, machine *infrav1.IDCMachine, instanceID string) error {
	if s.facts == nil { // It did not answer.
		return nil
	}
	claimant, err := nodes.Claimant(ctx, reader, host, instanceID)
	if err != nil {
		return err
	}
	claimant.Bootstrapped = machine != nil && ptr.Deref(machine.Status.Initialization.Provisioned, false)
	found := ownership.Judge(&s.facts.Usage, claimant)
	switch found.Use {
	case ownership.OfOthers:
		s.problem = &probe.Problem{Reason: probe.InUse, Message: inUse(host, found.Err(), leaveHost)}
	case ownership.TakenOver:
		s.takenOver = found.Fact
	}
	return nil
}

// What to do with a host that must not be wiped.
const (
	leaveHost    = "delete the IDCHost"
	leaveMachine = "delete the Machine: its replacement gets another host"
)

// inUse says why a host is not changed, and the ways out.
func inUse(host *infrav1.IDCHost, err error, otherwise string) string {
	var refused *ownership.InUseError
	if !errors.As(err, &refused) || refused.Fact == "" {
		return err.Error()
	}
	is := ""
	if host.Spec.TakeOver != "" {
		is = fmt.Sprintf(", which is %q,", host.Spec.TakeOver)
	}
	return fmt.Sprintf("IDCHost %s is in use: %s; set its spec.takeOver%s to %q if this machine may be wiped, or else %s", host.Name, refused.Fact, is, refused.Fact, otherwise)
}
