package webhooks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
)

func TestComponentsOfEtcdTakeNoFormerRendering(t *testing.T) {
	for component, says := range map[string]string{
		"kube-apiserver": "", "kube-controller-manager": "", "kube-scheduler": "",
		"etcd-data":   "data that an older etcd cannot read: remove the entry",
		"etcd-events": "data that an older etcd cannot read: remove the entry",
		"kube-proxy":  `supported values: "kube-apiserver", "kube-controller-manager", "kube-scheduler"`,
		"services":    "supported values",
	} {
		t.Run(component, func(t *testing.T) {
			spec := &controlplanev1.KOKControlPlaneSpec{Rollout: controlplanev1.RolloutSpec{Renderings: []controlplanev1.StoredRendering{{Component: component, Revision: 3}}}}
			var errs field.ErrorList
			for _, err := range validateSettings(spec, field.NewPath("spec"), Limits{}) {
				if strings.HasPrefix(err.Field, "spec.rollout") {
					errs = append(errs, err)
				}
			}
			if (len(errs) > 0) != (says != "") || !strings.Contains(fmt.Sprint(errs), says) {
				t.Fatalf("it says %v, want %q", errs, says)
			}
			if len(errs) > 0 && errs[0].Field != "spec.rollout.renderings[0].component" {
				t.Errorf("it says it of %s", errs[0].Field)
			}
		})
	}
}

func TestWhoAsksForTheNewestRenderingsIsToldWhatIsHeld(t *testing.T) {
	at := func(second int64, named ...string) controlplanev1.RolloutSpec {
		spec := controlplanev1.RolloutSpec{}
		if second > 0 {
			spec.After = metav1.NewTime(time.Unix(second, 0))
		}
		for _, component := range named {
			spec.Renderings = append(spec.Renderings, controlplanev1.StoredRendering{Component: component, Revision: 3})
		}
		return spec
	}
	for name, test := range map[string]struct {
		before, after controlplanev1.RolloutSpec
		says          string
	}{
		"a time alone":                   {after: at(2)},
		"a rendering is named":           {before: at(2), after: at(2, "kube-scheduler")},
		"another time, and nothing held": {before: at(2, "kube-scheduler"), after: at(3)},
		"the time is taken away":         {before: at(2, "kube-scheduler"), after: at(0, "kube-scheduler")},
		"another time": {before: at(2, "kube-scheduler"), after: at(3, "kube-apiserver", "kube-scheduler"),
			says: "spec.rollout.renderings holds kube-apiserver, kube-scheduler at a former rendering, whatever spec.rollout.after is: remove the entry"},
		"the first time": {before: at(0, "kube-scheduler"), after: at(3, "kube-scheduler"), says: "holds kube-scheduler"},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(rollout controlplanev1.RolloutSpec) *controlplanev1.KOKControlPlane {
				return controlPlane(func(s *controlplanev1.KOKControlPlaneSpec) { s.Rollout = rollout })
			}
			warnings, err := (&KOKControlPlane{Limits: DefaultLimits(), Versions: &supported.Versions{}}).ValidateUpdate(t.Context(), of(test.before), of(test.after))
			if err != nil {
				t.Fatal(err)
			}
			if (len(warnings) > 0) != (test.says != "") || !strings.Contains(fmt.Sprint(warnings), test.says) {
				t.Errorf("it says %v, want %q", warnings, test.says)
			}
		})
	}
}
