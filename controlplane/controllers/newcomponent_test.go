package controllers

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/observation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/exampleproxy"
)

// What the controller needs of a component follows from its description: nothing here names the one that is made up but
// the test. CONTRIBUTING.md, "A new component", promises it.
func TestTheControllerHandlesANewComponentByItsDescription(t *testing.T) {
	added, settings := exampleproxy.Register(t)

	t.Run("it is a step after kube-apiserver", func(t *testing.T) {
		steps := (&Reconciler{}).order()
		i := slices.IndexFunc(steps, func(step flow.Step[*scope]) bool { return step.Name == added.Name })
		if i < 0 || !slices.Equal(steps[i].After, []string{names.KubeAPIServer}) || steps[i].Run == nil || steps[i].Keep == nil {
			t.Errorf("its step is %d of %d", i, len(steps))
		}
		(&Reconciler{}).graph()
	})
	t.Run("its workload is observed, and deleted", func(t *testing.T) {
		if _, ok := workloads.Kinds(&controlplanev1.KOKControlPlane{})[added.Name].(*appsv1.Deployment); !ok {
			t.Error("it has none")
		}
	})
	t.Run("its certificates are issued", func(t *testing.T) {
		data := issue(t, "blue", "").data[added.Name]
		for _, file := range []string{components.ServerCert + ".crt", components.ClientCert + ".key"} {
			if len(data[file]) == 0 {
				t.Errorf("there is no %s", file)
			}
		}
		if kubeconfig := string(data[components.KubeconfigFile]); !strings.Contains(kubeconfig, "system:"+added.Name) {
			t.Errorf("its kubeconfig is\n%s", kubeconfig)
		}
	})
	t.Run("its version counts", func(t *testing.T) {
		controlPlane := &controlplanev1.KOKControlPlane{}
		pod := statustest.ReadyPod(added.Name, 0)
		pod.Labels[names.VersionLabel] = "v1.35.4"
		status.SetVersions(controlPlane, map[string][]corev1.Pod{added.Name: {pod}})
		if versions := controlPlane.Status.Versions; len(versions) != 1 || versions[0].Version != "v1.35.4" {
			t.Errorf("status.versions is %v", versions)
		}
	})
	seen := settled()
	seen.Workloads[added.Name] = &workloads.State{Observed: true, Desired: 2, Current: 2, Updated: 1, Ready: 0, Needed: 1}
	s := initializedScope()
	status.Set(s.statusInput(), seen)
	for _, name := range []string{"ControlPlaneComponentsHealthy", "Available", "RollingOut"} {
		t.Run("condition "+name+" tells of it", func(t *testing.T) {
			got := conditions.Get(s.controlPlane, name)
			if !strings.Contains(got.Message, added.Name) {
				t.Errorf("it is %s: %s", got.Status, got.Message)
			}
		})
	}
	t.Run("replicas without a host node are named", func(t *testing.T) {
		settings.Replicas = ptr.To[int32](5)
		host := fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}).Build()
		got, err := observation.WithoutRoom(t.Context(), host, &initializedScope().input, seen.Workloads)
		if err != nil || len(got) != 1 || !strings.HasPrefix(got[0].Error(), "spec.exampleProxy.replicas is 5, ") || !strings.Contains(got[0].Error(), added.Name) {
			t.Errorf("they are %v, %v", got, err)
		}
	})
}

// A component that a list leaves out would be made, and never observed, or the other way round.
func TestEveryComponentIsHandled(t *testing.T) {
	steps, kinds := (&Reconciler{}).order(), workloads.Kinds(&controlplanev1.KOKControlPlane{})
	known := []string{conditionsv1.EtcdClusterHealthyCondition, conditionsv1.ControlPlaneComponentsHealthyCondition}
	for _, component := range registry.Components {
		if !slices.ContainsFunc(steps, func(step flow.Step[*scope]) bool { return step.Name == component.Name }) {
			t.Errorf("no step applies %s", component.Name)
		}
		if workloads.StateOf(kinds[component.Name]) == nil {
			t.Errorf("nobody reads the state of the workload of %s", component.Name)
		}
		if !slices.Contains(known, component.Condition) {
			t.Errorf("no condition tells how %s is", component.Name)
		}
		if component.Certificates == nil || len(component.Ports) == 0 || len(component.Patches.Workloads) == 0 {
			t.Errorf("the description of %s lacks certificates, ports or patches", component.Name)
		}
	}
}
