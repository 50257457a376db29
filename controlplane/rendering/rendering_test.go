package rendering

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// A template may leave everything out.
func TestAnEmptySpecCanBeRendered(t *testing.T) {
	in, tenant, err := Sample(controlplanev1.KOKControlPlaneSpec{}, versions.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range registry.Components {
		objects, err := ObjectsOf(component, in)
		if err != nil || len(objects) < 2 {
			t.Errorf("%s has %d objects: %v", component.Name, len(objects), err)
		}
	}
	for _, addon := range addons.All {
		if objects, err := addons.Render(addon, tenant); err != nil || len(objects) < 2 {
			t.Errorf("%s has %d objects: %v", addon.Name, len(objects), err)
		}
	}
}

func TestASampleLeavesTheSpecAlone(t *testing.T) {
	spec := controlplanev1.KOKControlPlaneSpec{}
	if _, _, err := Sample(spec, versions.BuiltIn()); err != nil {
		t.Fatal(err)
	}
	if spec.KubeScheduler.Replicas != nil || spec.Hosting.NodeSelector != nil {
		t.Errorf("it has %v", spec)
	}
}

// A control plane goes on when the table has its version no more, and its patches can be edited.
func TestPatchesAreJudgedWhateverTheVersion(t *testing.T) {
	for name, version := range map[string]string{
		"of the table": "v1.36.3", "older than the table": "v1.20.0", "newer than the table": "v1.99.0", "none": "", "malformed": "latest",
	} {
		t.Run(name, func(t *testing.T) {
			patch := controlplanev1.Patch{Target: controlplanev1.PatchTarget{Component: "kube-scheduler", Kind: "Deployment"}, Patch: "metadata: {annotations: {a: b}}"}
			wrong := patch
			wrong.Target.Kind = "Job"
			spec := controlplanev1.KOKControlPlaneSpec{Version: version, Patches: []controlplanev1.Patch{patch}}
			if errs := ValidatePatches(spec, versions.BuiltIn(), nil, field.NewPath("spec", "patches")); len(errs) > 0 {
				t.Errorf("a patch that fits: %v", errs)
			}
			spec.Patches = append(spec.Patches, wrong)
			if errs := ValidatePatches(spec, versions.BuiltIn(), nil, field.NewPath("spec", "patches")); len(errs) != 1 {
				t.Errorf("one that does not: %v", errs)
			}
		})
	}
}
