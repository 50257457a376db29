package webhooks

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// kube-apiserver ends at its start with such an issuer, and its own validation does not know its flags.
func TestIssuersThatAPIServersCannotAskAreRefused(t *testing.T) {
	const managed, none, unset = controlplanev1.AddonManaged, controlplanev1.AddonNone, controlplanev1.AddonMode("")
	const elsewhere = "https://issuer.example"
	for name, test := range map[string]struct {
		mode     controlplanev1.AddonMode
		exposure controlplanev1.ExposureType
		url, way string
		// want is the field that is refused; empty for none.
		want string
	}{
		"from their nodes":                                {mode: none, url: elsewhere},
		"through konnectivity":                            {mode: managed, url: elsewhere, way: "cluster"},
		"through konnectivity, which is there by default": {mode: unset, url: elsewhere, way: "cluster"},
		"through konnectivity that is not there":          {mode: none, url: elsewhere, way: "cluster", want: "egressSelectorType"},
		"through konnectivity that NodePort has not":      {mode: unset, exposure: controlplanev1.ExposureNodePort, url: elsewhere, way: "controlplane", want: "egressSelectorType"},
		"their own": {mode: managed, url: "https://kubernetes.default.svc.cluster.local", want: "url"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &controlplanev1.KOKControlPlaneSpec{}
			spec.Addons.Konnectivity.Mode, spec.Hosting.Exposure.Type = test.mode, test.exposure
			way := ""
			if test.way != "" {
				way = fmt.Sprintf(`"egressSelectorType":%q,`, test.way)
			}
			spec.KubeAPIServer.JWT = []runtime.RawExtension{{Raw: []byte(fmt.Sprintf(
				`{"issuer":{"url":%q,%s"audiences":["a"]},"claimMappings":{"username":{"claim":"sub","prefix":""}}}`, test.url, way))}}
			path := field.NewPath("spec", "kubeAPIServer", "jwt")
			if errs := validateJWT(spec.KubeAPIServer.JWT, path); len(errs) > 0 {
				t.Fatalf("kube-apiserver's own validation refuses it: %v", errs)
			}
			errs := validateWaysToIssuers(spec, path)
			if (len(errs) > 0) != (test.want != "") || len(errs) > 0 && !strings.HasSuffix(errs[0].Field, "jwt[0].issuer."+test.want) {
				t.Errorf("got %v, want %q", errs, test.want)
			}
		})
	}
}
