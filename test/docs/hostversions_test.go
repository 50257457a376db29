package docs

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/mod/semver"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
)

// make test-all has a step on a host cluster of each of these versions, which a test of hack/matrix sees to.
func TestTheReadmeNamesTheHostClustersThatAreTested(t *testing.T) {
	var minors []string
	for _, version := range artifacts.HostVersions() {
		minors = append(minors, strings.TrimPrefix(semver.MajorMinor(version), "v"))
	}
	last := len(minors) - 1
	want := "| host cluster | Kubernetes " + strings.Join(minors[:last], ", ") + " and " + minors[last] + ";"
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "| host cluster |") {
			if !strings.HasPrefix(line, want) {
				t.Errorf("README.md has the row %q, not %q", line, want)
			}
			return
		}
	}
	t.Error("README.md has no row about the host cluster")
}
