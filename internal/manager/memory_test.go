package manager

import (
	"os"
	"runtime/debug"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

func TestFinding3TheMemoryOfAManagerIsBounded(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	for name, test := range map[string]struct {
		limit, goLimit string
		want           int64
		fails          bool
	}{
		"by the container's limit":       {"2147483648", "", 1932735276, false},
		"not without one":                {"", "", before, false},
		"not where Go is told by others": {"2147483648", "1GiB", before, false},
		"not by something else":          {"2Gi", "", before, true},
	} {
		t.Run(name, func(t *testing.T) {
			defer debug.SetMemoryLimit(before)
			t.Setenv(memoryLimit, test.limit)
			t.Setenv("GOMEMLIMIT", test.goLimit)
			err := limitMemory()
			if got := debug.SetMemoryLimit(-1); got != test.want || (err != nil) != test.fails {
				t.Errorf("the limit is %d, and the error %v", got, err)
			}
		})
	}
}

func TestFinding3EveryManagerIsInstalledWithALimitOfMemory(t *testing.T) {
	for _, provider := range []string{"bootstrap", "controlplane", "infrastructure"} {
		data, err := os.ReadFile("../../config/" + provider + "/manager/manager.yaml")
		if err != nil {
			t.Fatal(err)
		}
		data = []byte(os.Expand(string(data), func(variable string) string {
			if variable == "KOK_MEMORY_LIMIT:=2Gi" {
				return "2Gi"
			}
			return "a"
		}))
		deployment := &appsv1.Deployment{}
		if err := yaml.Unmarshal(data, deployment); err != nil {
			t.Fatal(err)
		}
		container := deployment.Spec.Template.Spec.Containers[0]
		if container.Resources.Limits.Memory().Value() != 2<<30 {
			t.Errorf("%s: the limit is %s", provider, container.Resources.Limits.Memory())
		}
		told := false
		for _, variable := range container.Env {
			told = told || variable.Name == memoryLimit && variable.ValueFrom.ResourceFieldRef.Resource == "limits.memory"
		}
		if !told {
			t.Errorf("%s: the manager is not told its limit", provider)
		}
	}
}
