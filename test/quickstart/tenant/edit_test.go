package tenant

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestAnEditChangesWhatItNamesAndNothingElse(t *testing.T) {
	for _, name := range []string{"cluster-template-control-plane.yaml", "cluster-template.yaml", "cluster-template-pod-network.yaml"} {
		t.Run(name, func(t *testing.T) {
			generated := generate(t, name)
			edited, err := (&Tenant{Edit: func(c *controlplanev1.KOKControlPlane) {
				c.Spec.KubeAPIServer.Workload = controlplanev1.APIServerDeployment
				c.Spec.Replicas = nil
			}}).edited(generated)
			if err != nil {
				t.Fatal(err)
			}
			want, err := utilyaml.ToUnstructured(generated)
			if err != nil {
				t.Fatal(err)
			}
			have, err := utilyaml.ToUnstructured(edited)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if want[i].GetKind() == "KOKControlPlane" {
					spec := want[i].Object["spec"].(map[string]any)
					spec["kubeAPIServer"] = map[string]any{"workload": "Deployment"}
					delete(spec, "replicas")
					// The templates have an empty Secret and an empty port pool, which are none.
					delete(spec, "imagePullSecret")
					delete(spec["hosting"].(map[string]any), "portPool")
					withoutNulls(spec)
				}
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// withoutNulls removes what a template has a variable without a value for.
func withoutNulls(object map[string]any) {
	for name, value := range object {
		if inner, ok := value.(map[string]any); ok {
			withoutNulls(inner)
		}
		if value == nil {
			delete(object, name)
		}
	}
}

func TestWithoutAnEditWhatIsGeneratedStays(t *testing.T) {
	const generated = "# as clusterctl printed it\nkind: KOKControlPlane\n"
	have, err := (&Tenant{}).edited([]byte(generated))
	if err != nil || string(have) != generated {
		t.Errorf("%v, %q", err, have)
	}
}

func TestAnEditOfNoControlPlaneIsAnError(t *testing.T) {
	_, err := (&Tenant{Template: "of-a-class.yaml", Edit: func(*controlplanev1.KOKControlPlane) {}}).edited([]byte("kind: Cluster\n"))
	if err == nil || !strings.Contains(err.Error(), "of-a-class.yaml") {
		t.Errorf("it is %v", err)
	}
}

// generate fills a template in as clusterctl does.
func generate(t *testing.T, name string) []byte {
	t.Helper()
	template, err := os.ReadFile("../../../templates/" + name)
	if err != nil {
		t.Fatal(err)
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) {
		return map[string]string{"CLUSTER_NAME": "one", "NAMESPACE": "two", "KUBERNETES_VERSION": "v1.36.3", "WORKER_MACHINE_COUNT": "1"}[name], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return filled
}
