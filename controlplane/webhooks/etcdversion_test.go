package webhooks

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

func TestWhichEtcdMayComeAfterWhich(t *testing.T) {
	const image = "registry.k8s.io/etcd:"
	const digest = "registry.k8s.io/etcd@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	settled, rolling := metav1.ConditionFalse, metav1.ConditionTrue
	for name, test := range map[string]struct {
		from, to string
		rolling  metav1.ConditionStatus
		founding bool
		unseen   bool
		inPods   bool
		want     string
	}{
		"nothing changes":                                 {rolling: settled},
		"another patch version":                           {from: image + "3.6.8-0", to: image + "3.6.5-0", rolling: settled},
		"an older minor":                                  {from: image + "3.6.8-0", to: image + "3.5.30-0", rolling: settled, want: "etcd v3.5.30 does not start with the data of etcd v3.6.8, which all members run; name an image of etcd v3.6"},
		"an older minor than that of a table":             {to: "example.com/mirror/etcd:v3.5.30", rolling: settled, want: "name an image of etcd v3.6"},
		"an older minor with a digest, too":               {from: image + "3.6.8-0", to: strings.Replace(digest, "@", ":v3.5.30@", 1), rolling: settled, want: "name an image of etcd v3.6"},
		"the way back in a rollout":                       {from: image + "3.6.8-0", to: image + "3.5.30-0", rolling: rolling},
		"the way back in a rollout that was not seen yet": {from: image + "3.6.8-0", to: image + "3.5.30-0", rolling: settled, unseen: true},
		"an older minor before there is any data":         {from: image + "3.6.8-0", to: image + "3.5.30-0", rolling: settled, founding: true},
		"an older minor for data in pods":                 {from: image + "3.7.0-0", to: image + "3.6.8-0", rolling: settled, inPods: true},
		"the next minor":                                  {from: image + "3.5.26-0", to: image + "3.6.8-0", rolling: settled},
		"the next minor, by a table":                      {from: image + "v3.5.30", rolling: settled},
		"the next minor from one that is too old":         {from: image + "3.5.25-0", to: image + "3.6.8-0", rolling: settled, want: "name an image of etcd v3.5.26 or newer first"},
		"the same by a table":                             {from: image + "3.5.9-0", rolling: settled, want: "etcd v3.6."},
		"the same in a rollout":                           {from: image + "3.5.9-0", to: image + "3.6.8-0", rolling: rolling, want: "name an image of etcd v3.5.26 or newer first"},
		"the next minor while some may be too old":        {from: image + "3.5.26-0", to: image + "3.6.8-0", rolling: rolling, want: "go on when the condition RollingOut is false"},
		"the same before anything was seen":               {from: image + "3.5.26-0", to: image + "3.6.8-0", want: "go on when the condition RollingOut is false"},
		"a tag that tells no version":                     {from: image + "3.6.8-0", to: image + "latest", rolling: settled},
		"a tag that tells a minor alone":                  {from: image + "3.5", to: image + "3.6.8-0", rolling: settled},
		"a digest alone":                                  {from: image + "3.6.8-0", to: digest, rolling: settled},
		"no image at all":                                 {from: image + "3.6.8-0", to: "What?", rolling: settled},
	} {
		t.Run(name, func(t *testing.T) {
			before := controlPlane(func(s *controlplanev1.KOKControlPlaneSpec) {
				s.Version, s.Etcd.Image = versions.BuiltIn().Newest().Minor+".0", test.from
			})
			if test.inPods {
				before.Spec.Etcd.Data.Storage.Type, before.Spec.Etcd.Events.Storage.Type = controlplanev1.EtcdStorageEmptyDir, controlplanev1.EtcdStorageEmptyDir
			}
			before.Generation, before.Status.ObservedGeneration = 4, 4
			if test.unseen {
				before.Status.ObservedGeneration = 3
			}
			before.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", Bootstrapped: ptr.To(!test.founding)}}
			if test.rolling != "" {
				before.Status.Conditions = []metav1.Condition{{Type: conditionsv1.RollingOutCondition, Status: test.rolling}}
			}
			after := before.DeepCopy()
			after.Spec.Etcd.Image = test.to
			errs := validateEtcdVersionChange(before, after, versions.BuiltIn(), field.NewPath("spec", "etcd", "image"))
			switch {
			case test.want == "" && len(errs) > 0:
				t.Errorf("it is refused: %v", errs)
			case test.want != "" && (len(errs) != 1 || errs[0].Field != "spec.etcd.image" || !strings.Contains(errs[0].Detail, test.want)):
				t.Errorf("it says %v", errs)
			}
		})
	}
}
