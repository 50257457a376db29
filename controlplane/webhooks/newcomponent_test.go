package webhooks

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/exampleproxy"
)

// What users set of a component is judged by its description. CONTRIBUTING.md, "A new component", promises it.
func TestSettingsOfANewComponentAreJudgedByItsDescription(t *testing.T) {
	_, settings := exampleproxy.Register(t)
	settings.Image = "registry.example.com/proxy:v1"
	settings.ExtraArgs = []controlplanev1.Arg{{Name: "kubeconfig", Value: ptr.To("/mine")}, {Name: "v", Value: ptr.To("2")}}
	settings.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("-1")}}
	limits := Limits{ImageRepositories: []string{"registry.k8s.io"}}
	path := field.NewPath("spec")
	var got []string
	for _, err := range validateSettings(&controlplanev1.KOKControlPlaneSpec{}, path, limits) {
		if at, ok := strings.CutPrefix(err.Field, "spec.exampleProxy."); ok {
			got = append(got, at)
		}
	}
	want := []string{"image", "extraArgs[0].name", "resources.requests[memory]"}
	if !slices.Equal(got, want) {
		t.Errorf("these are refused: %v, want %v", got, want)
	}
}
