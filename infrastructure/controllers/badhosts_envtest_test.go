//go:build envtest

package controllers

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

func TestHostsThatWillNotDoSayWhyAndAreNotClaimed(t *testing.T) {
	s := newSite(t)
	for name, test := range map[string]struct {
		host      machineHost
		condition string
		reason    string
	}{
		"wrong-host-key": {machineHost{reach: &ssh.Error{Reason: ssh.HostKeyMismatch, Err: errors.New("x")}}, infrav1.ReachableCondition, infrav1.HostKeyMismatchReason},
		"wrong-key":      {machineHost{reach: &ssh.Error{Reason: ssh.AuthenticationFailed, Err: errors.New("x")}}, infrav1.ReachableCondition, infrav1.AuthenticationFailedReason},
		"away":           {machineHost{reach: &ssh.Error{Reason: ssh.Away, Err: errors.New("x")}}, infrav1.ReachableCondition, infrav1.HostAwayReason},
		"bastion-away":   {machineHost{reach: &ssh.Error{Reason: ssh.Away, Bastion: true, Err: errors.New("x")}}, infrav1.ReachableCondition, infrav1.BastionAwayReason},
		"no-key":         {machineHost{reach: &ssh.Error{Reason: ssh.CredentialsInvalid, Err: errors.New("x")}}, infrav1.ReachableCondition, infrav1.CredentialsInvalidReason},
		"no-sudo":        {machineHost{problem: &probe.Problem{Reason: probe.SudoMissing, Message: "x"}}, infrav1.HealthyCondition, infrav1.SudoMissingReason},
		"disk-full":      {machineHost{problem: &probe.Problem{Reason: probe.DiskFull, Message: "x"}}, infrav1.HealthyCondition, infrav1.DiskFullReason},
		"no-cloud-init":  {machineHost{problem: &probe.Problem{Reason: probe.SoftwareMissing, Message: "x"}}, infrav1.HealthyCondition, infrav1.SoftwareMissingReason},
		"in-use":         {machineHost{machine: "foreign"}, infrav1.HealthyCondition, infrav1.InUseReason},
	} {
		s.fleet.edit(name, func(h *machineHost) { *h = test.host })
		s.host(name, func(h *infrav1.IDCHost) { // But for its health it would do.
			h.Spec.FailureDomain, h.Spec.Capacity = "a", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")}
		})
		defer func() {
			says(s, &infrav1.IDCHost{}, name, test.condition, test.reason)
			says(s, &infrav1.IDCHost{}, name, infrav1.AvailableCondition, infrav1.NotHealthyReason)
			if s.getHost(name).Spec.Claim != nil {
				t.Errorf("%s is claimed", name)
			}
		}()
	}
	s.host("other-pool", func(h *infrav1.IDCHost) { h.Labels = map[string]string{"pool": "b"} })
	s.host("other-rack", func(h *infrav1.IDCHost) { h.Spec.FailureDomain = "b" })
	s.host("small", func(h *infrav1.IDCHost) { h.Spec.FailureDomain = "a" })
	s.host("sick", func(h *infrav1.IDCHost) {
		h.Spec.FailureDomain, h.Spec.Quarantine = "a", &infrav1.HostQuarantine{Reason: "broken fan", Since: metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	})
	s.host("sick-at-times", func(h *infrav1.IDCHost) { // By the command of the guide, which does not say since when.
		h.Spec.FailureDomain, h.Spec.Quarantine = "a", &infrav1.HostQuarantine{Reason: "broken fan"}
	})
	s.manager(nil)
	s.machine("worker-1", func(m *infrav1.IDCMachine, owner *clusterv1.Machine) {
		owner.Spec.FailureDomain = "a"
		m.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		m.Spec.MinCapacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	})
	says(s, &infrav1.IDCHost{}, "small", infrav1.AvailableCondition, infrav1.FreeReason)
	for name, want := range map[string]string{
		"sick":          "in quarantine since 2026-01-02T03:04:05Z: broken fan; put the host right, then remove spec.quarantine",
		"sick-at-times": "in quarantine: broken fan; put the host right, then remove spec.quarantine",
	} {
		if message := says(s, &infrav1.IDCHost{}, name, infrav1.AvailableCondition, infrav1.QuarantinedReason); message != want {
			t.Errorf("%s says %q", name, message)
		}
	}
	says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.ReadyCondition, infrav1.NoHostReason,
		"none of the 14 IDCHosts", "1 not selected by hostSelector !pool", `1 not in failure domain "a"`, "2 in quarantine", "8 not healthy, see their conditions", "1 in use by others, see their conditions",
		"1 too small, or of unknown size, by minCapacity.cpu", "add hosts, or put these right")
	s.host("large", func(h *infrav1.IDCHost) {
		h.Spec.FailureDomain, h.Spec.Capacity = "a", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")}
	})
	s.ready("worker-1")
	if got := s.getMachine("worker-1").Spec.HostRef.Name; got != "large" {
		t.Errorf("it has %s", got)
	}
}

// What happens to a host after it was claimed has the reasons of a free host, and is over when its cause is.
func TestAHostThatTurnsBadWhileItIsBootstrappedSaysWhyAndStaysWithItsMachine(t *testing.T) {
	for name, test := range map[string]struct {
		fault  machineHost
		reason string
		says   string
	}{
		"another host key": {machineHost{reach: &ssh.Error{Reason: ssh.HostKeyMismatch, Err: errors.New("x")}}, infrav1.HostKeyMismatchReason, "put the new ones into hostKeys"},
		"another key":      {machineHost{reach: &ssh.Error{Reason: ssh.AuthenticationFailed, Err: errors.New("x")}}, infrav1.AuthenticationFailedReason, "put the right key into the Secret"},
		"no power":         {machineHost{reach: &ssh.Error{Reason: ssh.Away, Err: errors.New("x")}}, infrav1.HostAwayReason, "check that it is switched on"},
		"no sudo":          {machineHost{problem: &probe.Problem{Reason: probe.SudoMissing, Message: "no sudo"}}, infrav1.SudoMissingReason, "no sudo (a command failed)"},
		"no room":          {machineHost{problem: &probe.Problem{Reason: probe.DiskFull, Message: "no room"}}, infrav1.DiskFullReason, "no room (a command failed)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			p := s.program(&mortal{writesLeft: 1000})
			s.host("host-1", nil)
			s.fleet.edit("host-1", func(h *machineHost) {
				h.fails = &bootstrap.Progress{State: bootstrap.Running, Detail: "cloud-init starts"}
			})
			s.machine("worker-1", nil)
			for range manySteps {
				p.step(s)
			}
			says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.BootstrappedCondition, infrav1.BootstrappingReason)
			s.fleet.edit("host-1", func(h *machineHost) { h.reach, h.problem = test.fault.reach, test.fault.problem })
			for range manySteps {
				p.step(s)
			}
			for _, condition := range []string{infrav1.BootstrappedCondition, infrav1.ReadyCondition} {
				message := says(s, &infrav1.IDCMachine{}, "worker-1", condition, test.reason, test.says)
				if !strings.HasPrefix(message, "work on IDCHost host-1 failed, and is tried again: ") {
					t.Errorf("%s says %q", condition, message)
				}
			}
			if pairs := s.bijection(); pairs != 1 {
				t.Errorf("%d machines have hosts", pairs)
			}
			s.fleet.edit("host-1", func(h *machineHost) { h.reach, h.problem, h.fails = nil, nil, nil })
			for range manySteps {
				p.step(s)
			}
			s.ready("worker-1")
			if h := s.fleet.edit("host-1", nil); h.bootstraps != 1 || h.cleanUps != 0 {
				t.Errorf("%+v", h)
			}
		})
	}
}
