package cleanup

import (
	"os"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/koksoftware"
)

// What people do by hand must leave no less clean a host than Run does: the next kubelet would take an old one's place.
func TestTheGuideEmptiesEveryFolderOfANodeThatOutlastsABoot(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/data-centre-hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(guide), "\n## Clean a host by hand\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("there is no such section")
	}
	if !strings.Contains(section, `for folder in record.get("folders", [])`) || !strings.Contains(section, `["`+software.Program+`", "remove"]`) {
		t.Error("it leaves a containerd that came with the machine")
	}
	words := strings.FieldsFunc(section, func(r rune) bool { return strings.ContainsRune(" \n'`", r) })
	named := map[string]bool{}
	for _, word := range words {
		named[strings.TrimSuffix(word, "/*")] = true
	}
	for _, folder := range append([]string{koksoftware.Dir}, nodePaths...) {
		// What is written before it is complete is complete, or gone with the seed's folder, after the step that writes it.
		if strings.HasPrefix(folder, "/run/") || strings.HasSuffix(folder, ".new") {
			continue
		}
		if !named[folder] {
			t.Errorf("it does not name %s", folder)
		}
	}
}
