//go:build envtest

package controllers

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenantprobes"
)

// expectEgress compares the condition, and what API servers read and say of themselves, which is by then the same for all.
func (tt *tenantTest) expectEgress(when, reason, through string) {
	tt.t.Helper()
	if got := conditions.GetReason(tt.controlPlane(), conditionsv1.EgressConfinedCondition); got != reason {
		tt.t.Errorf("%s the reason is %s, not %s", when, got, reason)
	}
	daemons, config := &appsv1.DaemonSet{}, &corev1.ConfigMap{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace(names.Object("blue", names.KubeAPIServer)), daemons); err != nil {
		tt.t.Fatal(err)
	}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace(names.Config("blue", names.KubeAPIServer)), config); err != nil {
		tt.t.Fatal(err)
	}
	if got := daemons.Spec.Template.Annotations[kubeapiserver.EgressAnnotation]; got != through {
		tt.t.Errorf("%s pods say %q, not %q", when, got, through)
	}
	if got := strings.Contains(config.Data["egress-selector.yaml"], "controlplane"); got != strings.Contains(through, "controlplane") {
		tt.t.Errorf("%s it is %t that webhooks with a URL go through workers", when, got)
	}
}

// storeOlder has the tenant be one of a release that led nodes, pods and Services alone through workers.
func (tt *tenantTest) storeOlder() {
	tt.t.Helper()
	tt.storeRevisions(func(stored *appsv1.ControllerRevision) bool {
		if !strings.HasPrefix(stored.Name, names.Object("blue", names.KubeAPIServer)) {
			return true
		}
		content := map[string]any{}
		if err := json.Unmarshal(stored.Data.Raw, &content); err != nil {
			tt.t.Fatal(err)
		}
		for _, item := range content["items"].([]any) {
			object := item.(map[string]any)
			if data, ok := object["data"].(map[string]any); ok && data["egress-selector.yaml"] != nil {
				data["egress-selector.yaml"] = upTo(tt.t, data["egress-selector.yaml"].(string), "controlplane")
			}
			if object["kind"] == "DaemonSet" {
				template := object["spec"].(map[string]any)["template"].(map[string]any)
				delete(template["metadata"].(map[string]any)["annotations"].(map[string]any), kubeapiserver.EgressAnnotation)
			}
		}
		raw, err := json.Marshal(content)
		if err != nil {
			tt.t.Fatal(err)
		}
		stored.Data.Raw = raw
		return true
	})
	tt.settle()
}

// withoutTenant answers for the addons: the tenant inside of all tests has no room for konnectivity's.
type withoutTenant struct{ patient }

func (w withoutTenant) Probe(key probe.Key, asked probe.Probe) (probe.Result, bool) {
	if key.Kind == tenantprobes.AddonsKind {
		return probe.Result{}, true
	}
	return w.patient.Probe(key, asked)
}

// newEgressTest is a tenant whose pods follow their templates.
func newEgressTest(t *testing.T, mode controlplanev1.AddonMode) *tenantTest {
	t.Helper()
	tt := newTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		c.Spec.Addons.Konnectivity.Mode = mode
	})
	tt.host.replaces = true
	tt.upgradeProvider()
	return tt
}

// upgradeProvider has a new program care for the tenant.
func (tt *tenantTest) upgradeProvider() {
	tt.t.Helper()
	tt.program = newProgram(tt.t, &gate{})
	tt.program.prober = withoutTenant{}
	tt.tellEtcd(1)
	tt.settle()
}

// expectRest sees to it that nothing is written while nothing happens.
func (tt *tenantTest) expectRest(when string) {
	tt.t.Helper()
	tt.program.gate.take()
	for range 3 {
		if err := tt.reconcile(); err != nil {
			tt.t.Fatal(err)
		}
	}
	if writes := tt.program.gate.takeWrites(); len(writes) > 0 {
		tt.t.Errorf("%s it wrote %v", when, writes)
	}
}

func TestFinding2ATenantOfAnOlderReleaseIsConfinedByARolloutAlone(t *testing.T) {
	tt := newEgressTest(t, controlplanev1.AddonManaged)
	tt.expectEgress("when it is made", conditionsv1.ConfinedReason, "cluster,controlplane")
	tt.expectRest("when it is made")

	tt.storeOlder()
	pods := tt.podUIDs()
	tt.upgradeProvider()
	tt.expectEgress("after the upgrade of the provider", conditionsv1.OlderRenderingReason, "")
	tt.expectRest("after the upgrade of the provider")
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Addons.CoreDNS.Mode = controlplanev1.AddonNone })
	tt.expectEgress("after a change that is not its own", conditionsv1.OlderRenderingReason, "")
	if after := tt.podUIDs(); !maps.Equal(pods, after) {
		t.Errorf("pods were replaced: %v, before %v", after, pods)
	}
	for _, name := range []string{conditionsv1.AvailableCondition, conditionsv1.ReconciledCondition} {
		if !conditions.IsTrue(tt.controlPlane(), name) {
			t.Errorf("%s is %v", name, conditions.Get(tt.controlPlane(), name))
		}
	}

	tt.program.Clock = inTwoMinutes()
	tt.editSpec(rollOutSoon)
	tt.expectEgress("after spec.rollout.after", conditionsv1.ConfinedReason, "cluster,controlplane")
	tt.expectRest("after spec.rollout.after")
}

// A control plane that older releases made says None, by the default that there was.
func TestFinding2ATenantWithoutKonnectivityStaysAndIsToldOf(t *testing.T) {
	tt := newEgressTest(t, controlplanev1.AddonNone)
	pods := tt.podUIDs()
	tt.expectEgress("when it is made", conditionsv1.KonnectivityOffReason, "")
	tt.upgradeProvider()
	tt.expectEgress("after the upgrade of the provider", conditionsv1.KonnectivityOffReason, "")
	tt.expectRest("after the upgrade of the provider")
	if after := tt.podUIDs(); !maps.Equal(pods, after) {
		t.Errorf("pods were replaced: %v, before %v", after, pods)
	}
	tt.editSpec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Addons.Konnectivity.Mode = controlplanev1.AddonManaged })
	tt.expectEgress("when it is switched on", conditionsv1.ConfinedReason, "cluster,controlplane")
}

// Who applies a manifest again that never named the mode must not switch anything on.
func TestFinding2AManifestWithoutTheModeChangesNothing(t *testing.T) {
	tt := newTenantTest(t, single)
	replaced := tt.controlPlane()
	replaced.Spec.Addons.Konnectivity.Mode = ""
	replaced.ManagedFields = nil
	if err := environment.Client.Update(t.Context(), replaced); err != nil {
		t.Fatal(err)
	}
	if got := tt.controlPlane().Spec.Addons.Konnectivity.Mode; got != controlplanev1.AddonNone {
		t.Errorf("the mode is %q", got)
	}
	if got := tt.controlPlane().Generation; got != 1 {
		t.Errorf("the spec was changed: generation %d", got)
	}
}
