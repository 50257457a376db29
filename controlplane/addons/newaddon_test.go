package addons_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/exampleaddon"
)

// What the control plane does with an addon follows from its description: nothing here names the one that is made up but
// the test. CONTRIBUTING.md, "A new addon", promises it.
func TestANewAddonIsHandledByItsDescription(t *testing.T) {
	mode := exampleaddon.Register(t)
	of := func(t *testing.T, edit func(*addon.Input)) (wanted, unwanted []client.Object) {
		t.Helper()
		_, in, err := rendering.Sample(controlplanev1.KOKControlPlaneSpec{}, versions.BuiltIn())
		if err != nil {
			t.Fatal(err)
		}
		edit(in)
		wanted, unwanted, err = addons.Objects(in)
		if err != nil {
			t.Fatal(err)
		}
		isOthers := func(o client.Object) bool { return o.GetLabels()[addon.NameLabel] != exampleaddon.Name }
		return slices.DeleteFunc(wanted, isOthers), slices.DeleteFunc(unwanted, isOthers)
	}
	t.Run("the tenant gets its objects, with our labels", func(t *testing.T) {
		wanted, _ := of(t, func(*addon.Input) {})
		if len(wanted) != 2 || wanted[0].GetLabels()[names.ManagedByLabel] != names.ManagedBy {
			t.Errorf("it gets %v", wanted)
		}
	})
	t.Run("its pods pull images by the Secret that others use", func(t *testing.T) {
		wanted, _ := of(t, func(in *addon.Input) { in.ImagePullSecret = []byte(`{"auths":{}}`) })
		secret := addon.Find[*corev1.Secret](wanted)
		if used := addon.Find[*appsv1.DaemonSet](wanted).Spec.Template.Spec.ImagePullSecrets; len(used) != 1 || used[0].Name != secret.Name || secret.Namespace != "kube-system" {
			t.Errorf("they use %v, and the Secret is %s in %s", used, secret.Name, secret.Namespace)
		}
	})
	t.Run("its objects are removed when it is switched off", func(t *testing.T) {
		*mode = controlplanev1.AddonNone
		defer func() { *mode = controlplanev1.AddonManaged }()
		if wanted, unwanted := of(t, func(*addon.Input) {}); len(wanted) > 0 || len(unwanted) != 3 {
			t.Errorf("%d are wanted, %d are not", len(wanted), len(unwanted))
		}
	})
	t.Run("its image is listed for mirrors", func(t *testing.T) {
		images, err := rendering.Images("v1.36.3", "", versions.BuiltIn())
		if err != nil || !slices.Contains(images, "registry.k8s.io/example-exporter:v1.36.3") {
			t.Errorf("the images are %v, %v", images, err)
		}
	})
	for name, test := range map[string]struct{ kind, patch, refused string }{
		"labels can be added":         {"DaemonSet", "metadata: {labels: {a: b}}", ""},
		"its image is a field":        {"DaemonSet", "spec: {template: {spec: {containers: [{name: exporter, image: mine}]}}}", "set spec.addons.exampleExporter.image"},
		"it has no Deployment":        {"Deployment", "metadata: {labels: {a: b}}", "example-exporter has no Deployment"},
		"its requests can be patched": {"DaemonSet", "spec: {template: {spec: {containers: [{name: exporter, resources: {requests: {cpu: 20m}}}]}}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := controlplanev1.KOKControlPlaneSpec{Patches: []controlplanev1.Patch{{
				Target: controlplanev1.PatchTarget{Component: exampleaddon.Name, Kind: test.kind}, Patch: test.patch,
			}}}
			errs := rendering.ValidatePatches(spec, versions.BuiltIn(), nil, field.NewPath("spec", "patches"))
			if test.refused == "" && len(errs) > 0 || test.refused != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), test.refused)) {
				t.Errorf("got %v", errs)
			}
		})
	}
}

// Every addon can be switched off, and names the field of its image.
func TestEveryAddonIsDescribed(t *testing.T) {
	for _, a := range addons.All {
		if a.Mode == nil || a.Objects == nil || !strings.HasPrefix(a.ImageField, "addons.") {
			t.Errorf("the description of %s lacks its mode, its objects or the field of its image", a.Name)
		}
	}
}
