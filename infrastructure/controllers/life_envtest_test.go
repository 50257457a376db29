//go:build envtest

package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

func (s *site) ready(name string) {
	s.t.Helper()
	says(s, &infrav1.IDCMachine{}, name, infrav1.ReadyCondition, infrav1.ReadyReason)
	s.eventually("it is provisioned", func() bool { return ptr.Deref(s.getMachine(name).Status.Initialization.Provisioned, false) })
}

func TestAHostServesOneMachineAfterTheOther(t *testing.T) {
	s := newSite(t)
	s.manager(nil)
	s.host("host-1", func(h *infrav1.IDCHost) { h.Spec.FailureDomain = "rack-a" })
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.FreeReason)
	ids := map[string]bool{}
	for _, name := range []string{"worker-1", "worker-2"} {
		s.machine(name, nil)
		s.ready(name)
		machine := s.getMachine(name)
		if !strings.HasPrefix(machine.Spec.ProviderID, "idc://"+s.namespace+"/host-1/") || ids[machine.Spec.ProviderID] || machine.Status.FailureDomain != "rack-a" || !ptr.Deref(machine.Status.Initialization.Provisioned, false) {
			t.Errorf("%+v %+v", machine.Spec, machine.Status)
		}
		ids[machine.Spec.ProviderID] = true
		says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.ClaimedReason)
		s.delete(&infrav1.IDCMachine{}, name)
		s.eventually("the machine is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, name) })
		says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.FreeReason)
	}
	host := s.getHost("host-1")
	if host.Spec.Claim != nil || len(host.Finalizers) > 0 || host.Status.System.Architecture != "amd64" || host.Status.Capacity.Cpu().Value() != 4 {
		t.Errorf("%+v", host)
	}
	if h := s.fleet.edit("host-1", nil); h.bootstraps != 2 || h.cleanUps != 2 {
		t.Errorf("%+v", h)
	}
}

func TestABootstrapThatFailsIsTold(t *testing.T) {
	s := newSite(t)
	s.manager(nil)
	s.host("host-1", nil)
	s.fleet.edit("host-1", func(h *machineHost) {
		h.fails = &bootstrap.Progress{State: bootstrap.Failed, Detail: "cloud-init failed: Runparts: 1 failures", Output: "containerd: not found"}
	})
	s.machine("worker-1", nil)
	message := says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.ReadyCondition, infrav1.BootstrapFailedReason)
	if message != "on IDCHost host-1 cloud-init failed: Runparts: 1 failures. Put the cause right, then delete the Machine. The end of its output:\ncontainerd: not found" {
		t.Errorf("%q", message)
	}
	if ptr.Deref(s.getMachine("worker-1").Status.Initialization.Provisioned, false) {
		t.Error("it is provisioned")
	}
	s.delete(&infrav1.IDCMachine{}, "worker-1")
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.FreeReason)

	s.fleet.edit("host-1", func(h *machineHost) { h.fails = nil })
	s.machine("ignition", nil)
	edit(s, "ignition", func(secret *corev1.Secret) { secret.Data["format"] = []byte("ignition") })
	s.machine("unready", func(_ *infrav1.IDCMachine, owner *clusterv1.Machine) {
		owner.Spec.Bootstrap.DataSecretName = nil
		owner.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KOKConfig", Name: "unready"}
	})
	says(s, &infrav1.IDCMachine{}, "unready", infrav1.ReadyCondition, infrav1.WaitingForBootstrapDataReason)
}

// Finding 4, by another way: a Machine names any Secret of its namespace, and kubeconfigs have the key of bootstrap data.
func TestFinding4AKubeconfigIsNoBootstrapData(t *testing.T) {
	s := newSite(t)
	s.manager(nil)
	s.machine("worker-1", nil)
	edit(s, "worker-1", func(secret *corev1.Secret) { secret.Data["value"] = []byte("apiVersion: v1\nkind: Config\n") })
	s.host("host-1", nil)
	says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.ReadyCondition, infrav1.BootstrapDataInvalidReason,
		"Secret worker-1, which Machine worker-1 names, has no user data of cloud-init in its key value")
	if h := s.fleet.edit("host-1", nil); h.bootstraps != 0 || h.data != "" {
		t.Errorf("the host was given %q", h.data)
	}
}

func TestACleanUpThatFailsQuarantinesTheHost(t *testing.T) {
	s := newSite(t)
	s.manager(nil)
	s.host("host-1", nil)
	s.machine("worker-1", nil)
	s.ready("worker-1")
	s.fleet.edit("host-1", func(h *machineHost) { h.cleanErr = &cleanup.UncleanError{Left: []string{"mount /var/lib/kubelet/a"}} })
	s.delete(&infrav1.IDCMachine{}, "worker-1")
	says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.DeletingCondition, infrav1.CleaningUpReason, "IDCHost host-1 is ")
	s.eventually("the machine is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-1") })
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.QuarantinedReason,
		"the clean-up after IDCMachine worker-1 failed: after the clean-up there still is: mount /var/lib/kubelet/a; put the host right, then remove spec.quarantine")
	if h := s.fleet.edit("host-1", nil); h.cleanUps != cleanUpTries {
		t.Errorf("%d tries", h.cleanUps)
	}
	s.machine("worker-2", nil)
	says(s, &infrav1.IDCMachine{}, "worker-2", infrav1.ReadyCondition, infrav1.NoHostReason)

	// A person puts it right.
	s.fleet.edit("host-1", func(h *machineHost) { h.machine, h.cleanErr = "", nil })
	edit(s, "host-1", func(h *infrav1.IDCHost) { h.Spec.Quarantine = nil })
	s.eventually("the second machine has it", func() bool { return s.getHost("host-1").Spec.Claim != nil })
}

func TestAHostThatIsAwayDoesNotHoldItsMachineForEver(t *testing.T) {
	s := newSite(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s.manager(func(r *MachineReconciler) { r.Clock, r.CleanUpTimeout = clock, time.Hour })
	s.host("host-1", nil)
	s.machine("worker-1", nil)
	s.ready("worker-1")
	s.fleet.edit("host-1", func(h *machineHost) {
		h.reach = &ssh.Error{Reason: ssh.Away, Server: "admin@host-1:22", Err: errors.New("no route")}
	})
	s.delete(&infrav1.IDCMachine{}, "worker-1")
	says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.DeletingCondition, infrav1.CleaningUpReason, "cannot be reached: no route")
	if s.getHost("host-1").Spec.Claim == nil {
		t.Error("the host is given back")
	}
	clock.SetTime(time.Now().Add(2 * time.Hour))
	s.eventually("the machine is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-1") })
	if host := s.getHost("host-1"); host.Spec.Quarantine == nil || !strings.Contains(host.Spec.Quarantine.Reason, "no route") || host.Spec.Claim != nil {
		t.Errorf("%+v", host.Spec)
	}
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.QuarantinedReason, "it is cleaned, and free, once it answers again")

	// It comes back with what the machine left.
	s.fleet.edit("host-1", func(h *machineHost) { h.reach = nil })
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.FreeReason)
	if h := s.fleet.edit("host-1", nil); h.cleanUps != 1 || h.machine != "" {
		t.Errorf("it was cleaned %d times and carries %q", h.cleanUps, h.machine)
	}
}

// A person repairs a host, without power, whose machine goes in the meantime.
func TestAPersonsQuarantineOutlastsTheMachine(t *testing.T) {
	for name, test := range map[string]struct {
		fault machineHost
		says  string
	}{
		"of a host that is away":             {machineHost{reach: &ssh.Error{Reason: ssh.Away, Server: "admin@host-1:22", Err: errors.New("no route")}}, "no route"},
		"of a host that cannot be cleaned":   {machineHost{cleanErr: &cleanup.UncleanError{Left: []string{"mount /data"}}}, "mount /data"},
		"of a host that is clean afterwards": {machineHost{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			clock := clocktesting.NewFakePassiveClock(time.Now())
			s.manager(func(r *MachineReconciler) { r.Clock, r.CleanUpTimeout = clock, time.Hour })
			s.host("host-1", nil)
			s.machine("worker-1", nil)
			s.ready("worker-1")
			since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
			edit(s, "host-1", func(h *infrav1.IDCHost) {
				h.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "broken fan", Since: since}
			})
			s.fleet.edit("host-1", func(h *machineHost) { h.reach, h.cleanErr = test.fault.reach, test.fault.cleanErr })
			clock.SetTime(time.Now().Add(2 * time.Hour))
			s.delete(&infrav1.IDCMachine{}, "worker-1")
			s.eventually("the machine is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-1") })

			// Somebody switches it on to look at it.
			s.fleet.edit("host-1", func(h *machineHost) { h.reach, h.cleanErr = nil, nil })
			carries := s.fleet.edit("host-1", nil).machine
			says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.QuarantinedReason,
				"broken fan", test.says, "put the host right, then remove spec.quarantine")
			s.machine("worker-2", nil)
			if !without(t, 2*time.Second, func() bool {
				host := s.getHost("host-1")
				return host.Spec.Quarantine == nil || !host.Spec.Quarantine.Since.Equal(&since) || host.Spec.Claim != nil || s.fleet.edit("host-1", nil).machine != carries
			}) {
				t.Errorf("it is worked on while somebody repairs it: %+v", s.getHost("host-1").Spec)
			}
			if test.fault.cleanErr != nil {
				s.fleet.edit("host-1", func(h *machineHost) { h.machine = "" }) // That one is put right by the person.
			}
			edit(s, "host-1", func(h *infrav1.IDCHost) { h.Spec.Quarantine = nil })
			s.ready("worker-2")
			if host := s.getHost("host-1"); host.Spec.Quarantine != nil || host.Spec.UncleanInstanceID != "" {
				t.Errorf("%+v", host.Spec)
			}
		})
	}
}

func TestAHostThatComesBackAndCannotBeCleanedWaitsForAPerson(t *testing.T) {
	s := newSite(t)
	s.manager(nil)
	s.fleet.edit("host-1", func(h *machineHost) {
		h.machine, h.cleanErr = "gone", &cleanup.UncleanError{Left: []string{"mount /var/lib/kubelet/a"}}
	})
	s.host("host-1", func(h *infrav1.IDCHost) {
		h.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "no route", Since: metav1.Now(), InstanceID: "gone"}
	})
	forPerson := func() bool {
		quarantine := s.getHost("host-1").Spec.Quarantine
		return quarantine != nil && quarantine.InstanceID == "" && strings.Contains(quarantine.Reason, "mount /var/lib/kubelet/a")
	}
	s.eventually("a person must act", forPerson)
	if !without(t, cleanUpRetry*3/2, func() bool { return s.fleet.edit("host-1", nil).cleanUps > cleanUpTries }) {
		t.Error("it is cleaned while a person works on it")
	}
	if h := s.fleet.edit("host-1", nil); h.cleanUps != cleanUpTries {
		t.Errorf("%d tries", h.cleanUps)
	}

	// The person wants it tried again.
	edit(s, "host-1", func(h *infrav1.IDCHost) { h.Spec.Quarantine.InstanceID = "gone" })
	s.eventually("a person must act once more", forPerson)
	if h := s.fleet.edit("host-1", nil); h.cleanUps != 2*cleanUpTries {
		t.Errorf("%d tries in both rounds", h.cleanUps)
	}
}

func TestDeletionNeedsNothingButTheHost(t *testing.T) {
	for name, before := range map[string]func(*site){
		"the host is gone": func(s *site) {
			edit(s, "host-1", func(h *infrav1.IDCHost) { h.Finalizers = nil })
			s.delete(&infrav1.IDCHost{}, "host-1")
		},
		"the Machine is gone":        func(s *site) { s.delete(&clusterv1.Machine{}, "worker-1") },
		"the Cluster is gone":        func(s *site) { s.delete(&clusterv1.Cluster{}, "blue") },
		"the bootstrap data is gone": func(s *site) { s.delete(&corev1.Secret{}, "worker-1") },
		"all is gone": func(s *site) {
			s.delete(&clusterv1.Machine{}, "worker-1")
			s.delete(&clusterv1.Cluster{}, "blue")
			s.delete(&corev1.Secret{}, "worker-1")
		},
		"another machine has the host": func(s *site) {
			edit(s, "host-1", func(h *infrav1.IDCHost) { h.Spec.Claim = nil })
			edit(s, "host-1", func(h *infrav1.IDCHost) { h.Spec.Claim = &infrav1.HostClaim{Name: "worker-1", InstanceID: "another"} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.manager(nil)
			s.host("host-1", nil)
			s.machine("worker-1", nil)
			s.ready("worker-1")
			before(s)
			s.delete(&infrav1.IDCMachine{}, "worker-1")
			s.eventually("the machine is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-1") })
		})
	}
}

func TestHostsAreDeletedWhenNobodyHasThem(t *testing.T) {
	s := newSite(t)
	s.manager(nil)
	s.host("host-1", nil)
	s.machine("worker-1", nil)
	s.ready("worker-1")
	s.delete(&infrav1.IDCHost{}, "host-1")
	message := says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.DeletingReason)
	if message != "the host goes when IDCMachine worker-1 gave it back; delete that Machine" {
		t.Errorf("%q", message)
	}
	s.delete(&infrav1.IDCMachine{}, "worker-1")
	s.eventually("both are gone", func() bool {
		return s.gone(&infrav1.IDCMachine{}, "worker-1") && s.gone(&infrav1.IDCHost{}, "host-1")
	})
	if h := s.fleet.edit("host-1", nil); h.machine != "" || h.cleanUps != 1 {
		t.Errorf("it is not clean: %+v", h)
	}
	s.host("host-2", nil)
	says(s, &infrav1.IDCHost{}, "host-2", infrav1.AvailableCondition, infrav1.FreeReason)
	s.delete(&infrav1.IDCHost{}, "host-2")
	if !s.gone(&infrav1.IDCHost{}, "host-2") {
		t.Error("a free host does not go at once")
	}
}

func TestAHostWhoseMachineIsGoneIsCleanedByWhatItsConditionSays(t *testing.T) {
	s := newSite(t)
	s.fleet.edit("host-1", func(h *machineHost) { h.machine = "1" })
	s.host("host-1", func(h *infrav1.IDCHost) {
		h.Spec.Claim = &infrav1.HostClaim{Name: "worker-1", InstanceID: "1"}
		h.Finalizers = []string{infrav1.IDCHostFinalizer}
	})
	s.manager(nil)
	message := says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.ClaimLostReason,
		"IDCMachine worker-1 (instance 1), which claimed the host, is gone", "kubectl patch idchost host-1 --namespace "+s.namespace+" --type=merge -p '{")
	// Another machine of that name does not inherit it.
	s.machine("worker-1", nil)
	says(s, &infrav1.IDCMachine{}, "worker-1", infrav1.ReadyCondition, infrav1.NoHostReason)
	if h := s.fleet.edit("host-1", nil); h.cleanUps != 0 || s.getHost("host-1").Spec.Claim.InstanceID != "1" {
		t.Errorf("%+v", h)
	}

	_, written, _ := strings.Cut(message, "-p '")
	if err := s.Client.Patch(t.Context(), s.getHost("host-1"), client.RawPatch(types.MergePatchType, []byte(strings.TrimSuffix(written, "'")))); err != nil {
		t.Fatal(err)
	}
	s.ready("worker-1")
	if h := s.fleet.edit("host-1", nil); h.cleanUps != 1 || h.bootstraps != 1 {
		t.Errorf("%+v", h)
	}
}

func TestAHostThatIsDeletedWhenItsMachineIsGoneIsForAPerson(t *testing.T) {
	s := newSite(t)
	s.host("host-1", func(h *infrav1.IDCHost) {
		h.Spec.Claim = &infrav1.HostClaim{Name: "worker-1", InstanceID: "1"}
		h.Finalizers = []string{infrav1.IDCHostFinalizer}
	})
	s.delete(&infrav1.IDCHost{}, "host-1")
	s.manager(nil)
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.ClaimLostReason,
		"clean the host by hand, because this IDCHost is being deleted, then remove the finalizer "+infrav1.IDCHostFinalizer)
}

func TestAPausedClusterIsLeftAlone(t *testing.T) {
	s := newSite(t)
	s.manager(nil)
	s.host("host-1", nil)
	s.machine("worker-1", nil)
	s.ready("worker-1")
	edit(s, "blue", func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	says(s, &infrav1.IDCMachine{}, "worker-1", clusterv1.PausedCondition, clusterv1.PausedReason)
	says(s, &infrav1.IDCHost{}, "host-1", clusterv1.PausedCondition, clusterv1.PausedReason)
	s.delete(&infrav1.IDCMachine{}, "worker-1")
	stays := without(t, time.Second, func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-1") || s.getHost("host-1").Spec.Claim == nil })
	if !stays {
		t.Error("a paused machine is deleted")
	}
	edit(s, "blue", func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(false) })
	s.eventually("the machine is gone", func() bool { return s.gone(&infrav1.IDCMachine{}, "worker-1") })
	says(s, &infrav1.IDCHost{}, "host-1", infrav1.AvailableCondition, infrav1.FreeReason)
}

// without reports whether something did not happen in a time.
func without(t *testing.T, d time.Duration, happens func() bool) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return true
		case <-ticker.C:
			if happens() {
				return false
			}
		}
	}
}

// A settled inventory costs no write.
func TestASettledSiteIsQuiet(t *testing.T) {
	s := newSite(t)
	stop := s.manager(nil)
	for i := range 3 {
		s.host(fmt.Sprintf("host-%d", i), nil)
	}
	s.machine("worker-1", nil)
	s.ready("worker-1")
	versions := func() string {
		text := s.getMachine("worker-1").ResourceVersion
		for i := range 3 {
			text += " " + s.getHost(fmt.Sprintf("host-%d", i)).ResourceVersion
		}
		return text
	}
	before, since := versions(), time.Now()
	s.eventually("nothing is written for three seconds", func() bool {
		if now := versions(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	stop()
	s.manager(nil)
	if !without(t, 3*time.Second, func() bool { return versions() != before }) {
		t.Errorf("a manager that starts writes: %s became %s", before, versions())
	}
}
