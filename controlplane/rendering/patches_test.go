package rendering

import (
	"reflect"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// Whoever collects metrics is let in by one patch, also where nobody was let in before.
func TestEveryNetworkPolicyTakesTheDocumentedPatch(t *testing.T) {
	for _, component := range registry.Components {
		t.Run(component.Name, func(t *testing.T) {
			spec := controlplanev1.KOKControlPlaneSpec{}
			spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
			before := ingress(t, component, spec)
			spec.Patches = []controlplanev1.Patch{{
				Target: controlplanev1.PatchTarget{Component: component.Name, Kind: "NetworkPolicy"}, Type: controlplanev1.PatchJSON6902,
				Patch: `[{op: add, path: /spec/ingress/-, value: {from: [{namespaceSelector: {matchLabels: {team: monitoring}}}]}}]`,
			}}
			if errs := ValidatePatches(spec, versions.BuiltIn(), nil, field.NewPath("spec", "patches")); len(errs) > 0 {
				t.Fatal(errs.ToAggregate())
			}
			after := ingress(t, component, spec)
			if len(after) != len(before)+1 || !reflect.DeepEqual(after[:len(before)], before) && len(before) > 0 {
				t.Fatalf("it let in\n%v\nand now lets in\n%v", before, after)
			}
			if got := after[len(before)].From[0].NamespaceSelector.MatchLabels["team"]; got != "monitoring" {
				t.Errorf("it lets in %v", after[len(before)])
			}
		})
	}
}

// ingress are the rules of a component's NetworkPolicy, as the controller renders it.
func ingress(t *testing.T, component components.Component, spec controlplanev1.KOKControlPlaneSpec) []networkingv1.NetworkPolicyIngressRule {
	t.Helper()
	in, _, err := Sample(spec, versions.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if policy, ok := object.(*networkingv1.NetworkPolicy); ok {
			return policy.Spec.Ingress
		}
	}
	t.Fatal("it has no NetworkPolicy")
	return nil
}
