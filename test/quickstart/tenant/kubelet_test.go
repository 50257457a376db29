package tenant

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

func TestKubeletsThatShareADiskGoByWhatIsFree(t *testing.T) {
	for template, kind := range map[string]string{"cluster-template.yaml": "KOKConfigTemplate", "cluster-template-pod-network.yaml": "KOKConfigTemplate"} {
		generated := generate(t, template)
		told, err := withSharedDisk(generated)
		if err != nil {
			t.Fatal(err)
		}
		before, after := objects(t, generated), objects(t, told)
		for i := range before {
			if before[i].GetKind() != kind {
				if diff := cmp.Diff(before[i], after[i]); diff != "" {
					t.Errorf("%s, %s: %s", template, before[i].GetKind(), diff)
				}
				continue
			}
			config := &bootstrapv1.KOKConfigTemplate{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after[i].Object, config, true); err != nil {
				t.Fatal(err)
			}
			set := config.Spec.Template.Spec.Kubelet.Configuration
			if set.ImageGCHighThresholdPercent == nil || *set.ImageGCHighThresholdPercent != 100 || set.EvictionHard["imagefs.available"] != "500Mi" {
				t.Errorf("%s: kubelets are told %+v", template, set)
			}
		}
	}
}

func TestOfATopologyTheVariableIsSet(t *testing.T) {
	told, err := withSharedDisk(generate(t, "cluster-template-topology.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(told); !strings.Contains(text, "imageGCHighThresholdPercent: 100") || !strings.Contains(text, "name: kubelet\n") {
		t.Errorf("it is\n%s", text)
	}
}

func objects(t *testing.T, manifests []byte) []unstructured.Unstructured {
	t.Helper()
	list, err := utilyaml.ToUnstructured(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
