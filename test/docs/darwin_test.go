package docs

import (
	"go/build"
	"slices"
	"strings"
	"testing"
)

// Programs of administrators are released for macOS, too, for which the gate compiles nothing. What Linux alone has is in golang.org/x/sys/unix.
func TestProgramsOfAdministratorsUseNothingOfLinuxAlone(t *testing.T) {
	const project = "github.com/kube-on-kube/cluster-api-provider-kok/"
	// portable are the packages that use of it only what every Unix has.
	portable := []string{"bootstrap/apiserverlb/program"}
	macOS := build.Default
	macOS.GOOS, macOS.CgoEnabled = "darwin", false
	read := map[string]bool{}
	var visit func(folder string)
	visit = func(folder string) {
		if read[folder] {
			return
		}
		read[folder] = true
		found, err := macOS.ImportDir("../../"+folder, 0)
		if err != nil {
			t.Fatalf("%s for macOS: %v", folder, err)
		}
		for _, path := range found.Imports {
			if ours, ok := strings.CutPrefix(path, project); ok {
				visit(ours)
			} else if path == "golang.org/x/sys/unix" && !slices.Contains(portable, folder) {
				t.Errorf("%s imports %s for macOS: put what needs it into files for Linux, beside others for all other systems", folder, path)
			}
		}
	}
	visit("cmd/kok")
	visit("bootstrap/apiserverlb/cmd/kok-apiserver-lb")
	if len(read) < 50 {
		t.Errorf("only %d packages were read", len(read))
	}
}
