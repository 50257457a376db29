//go:build envtest

package controllers

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
)

// warnings are the Events of type Warning since the last call.
func (p *program) warnings(t *testing.T) (all []string) {
	t.Helper()
	recorder, ok := p.machines.recorder.(*events.FakeRecorder)
	if !ok {
		t.Fatalf("%T", p.machines.recorder)
	}
	for {
		select {
		case event := <-recorder.Events:
			if strings.HasPrefix(event, "Warning ") {
				all = append(all, event)
			}
		default:
			return all
		}
	}
}

func TestAMachineSaysWhichSoftwareItsHostCouldNotGet(t *testing.T) {
	s := newSite(t)
	p := s.program(&mortal{writesLeft: 1000})
	s.host("host-1", nil)
	s.fleet.edit("host-1", func(h *machineHost) {
		h.fails = &bootstrap.Progress{State: bootstrap.Running, Detail: "cloud-init starts"}
	})
	s.machine("worker-1", nil)
	for _, test := range []struct {
		result          software.Result
		reason, message string
	}{
		{software.Result{Reason: software.NoVariant, Component: "containerd", Message: "the host is fedora 42 (amd64), and no variant is for that."},
			infrav1.SoftwareNotForHostReason, "on IDCHost host-1 the software containerd was not installed: the host is fedora 42 (amd64), and no variant is for that; put that right, then delete the Machine"},
		{software.Result{Reason: software.NoSource, Component: "kubelet", Message: "https://mirror.example/kubelet gave another file; see to the mirror"},
			infrav1.SoftwareNotAvailableReason, "on IDCHost host-1 the software kubelet was not installed: https://mirror.example/kubelet gave another file; see to the mirror; put that right, then delete the Machine"},
		{software.Result{Reason: software.NoRoom, Message: "/opt has 3 MiB free, 80 are needed"},
			infrav1.NoRoomForSoftwareReason, "on IDCHost host-1 the software was not installed: /opt has 3 MiB free, 80 are needed; put that right, then delete the Machine"},
		{software.Result{Reason: software.NotWorking, Component: "containerd"},
			infrav1.SoftwareNotWorkingReason, "on IDCHost host-1 the software containerd was not installed: look at the output of journalctl -u kok-bootstrap on it; put that right, then delete the Machine"},
		{software.Result{Reason: software.NotInstalled, Message: "apt is locked"},
			infrav1.SoftwareNotInstalledReason, "on IDCHost host-1 the software was not installed: apt is locked; put that right, then delete the Machine"},
		{software.Result{Reason: "Ready", Message: "all is well"},
			infrav1.BootstrapFailedReason, "on IDCHost host-1 the software was not installed: all is well; put that right, then delete the Machine"},
	} {
		t.Run(string(test.result.Reason), func(t *testing.T) {
			s.fleet.edit("host-1", func(h *machineHost) {
				h.fails = &bootstrap.Progress{State: bootstrap.Failed, Detail: "cloud-init failed", Software: &test.result}
			})
			for range manySteps {
				p.step(s)
			}
			for _, condition := range []string{infrav1.BootstrappedCondition, infrav1.ReadyCondition} {
				if message := says(s, &infrav1.IDCMachine{}, "worker-1", condition, test.reason); message != test.message {
					t.Errorf("%s says %q", condition, message)
				}
			}
			owner := &clusterv1.Machine{}
			if err := conditions.SetMirrorConditionFromUnstructured(&unstructured.Unstructured{Object: raw(s, "IDCMachine", "worker-1")}, owner,
				clusterv1.ReadyCondition, conditions.TargetConditionType(clusterv1.MachineInfrastructureReadyCondition)); err != nil {
				t.Fatal(err)
			}
			if got := conditions.Get(owner, clusterv1.MachineInfrastructureReadyCondition); got.Status != metav1.ConditionFalse || got.Reason != test.reason || got.Message != test.message {
				t.Errorf("Cluster API says %+v of the Machine", got)
			}
			if told, want := p.warnings(t), "Warning "+test.reason+" "+test.message; len(told) != 1 || told[0] != want {
				t.Errorf("Events are %q", told)
			}
			if pairs := s.bijection(); pairs != 1 {
				t.Errorf("%d machines have hosts", pairs)
			}
		})
	}
}

func TestAMachineSaysWhichSourcesOfSoftwareItsHostAvoided(t *testing.T) {
	s := newSite(t)
	p := s.program(&mortal{writesLeft: 1000})
	s.host("host-1", nil)
	s.fleet.edit("host-1", func(h *machineHost) {
		h.fails = &bootstrap.Progress{State: bootstrap.Done, Avoided: []string{"https://a.example/kubelet: it answers 404", "3 more"}}
	})
	s.machine("worker-1", nil)
	const want = "the software is installed, and other sources gave what these did not: https://a.example/kubelet: it answers 404; 3 more; see to them before more machines need them"
	// It stays when nobody visits the host any more.
	for range 2 {
		for range manySteps {
			p.step(s)
		}
		for condition, reason := range map[string]string{infrav1.BootstrappedCondition: infrav1.BootstrappedReason, infrav1.ReadyCondition: infrav1.ReadyReason} {
			if message := says(s, &infrav1.IDCMachine{}, "worker-1", condition, reason); message != want {
				t.Errorf("%s says %q", condition, message)
			}
		}
	}
	owner := &clusterv1.Machine{}
	if err := conditions.SetMirrorConditionFromUnstructured(&unstructured.Unstructured{Object: raw(s, "IDCMachine", "worker-1")}, owner,
		clusterv1.ReadyCondition, conditions.TargetConditionType(clusterv1.MachineInfrastructureReadyCondition)); err != nil {
		t.Fatal(err)
	}
	if got := conditions.Get(owner, clusterv1.MachineInfrastructureReadyCondition); got.Status != metav1.ConditionTrue || got.Message != want {
		t.Errorf("Cluster API says %+v of the Machine", got)
	}
	if told := p.warnings(t); len(told) != 1 || told[0] != "Warning SourcesAvoided on IDCHost host-1 "+want {
		t.Errorf("Events are %q", told)
	}
}
