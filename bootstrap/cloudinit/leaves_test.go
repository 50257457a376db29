package cloudinit

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// leavesOf is all that a document says, taken to pieces as the programs do that read it: cloud-init, systemd, kubelet and
// containerd. Each piece is by its place. What cannot be read is one piece, as it is.
func leavesOf(t testing.TB, data []byte) map[string]string {
	t.Helper()
	d, err := unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	leaves := map[string]string{}
	for i, file := range d.WriteFiles {
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			t.Fatalf("%s: %v", file.Path, err)
		}
		at := fmt.Sprintf("file %d %s", i, file.Path)
		leaves[at+" attributes"] = strings.Join([]string{file.Owner, file.Permissions, file.Encoding}, " ")
		leaves[at+" is written when its owner is there"] = fmt.Sprint(file.Defer == (file.Owner != "" && file.Owner != "root:root"))
		maps.Copy(leaves, fileLeaves(at, file.Path, string(content)))
	}
	whole := map[string]any{}
	if err := yaml.Unmarshal(data, &whole); err != nil {
		t.Fatal(err)
	}
	delete(whole, "write_files")
	flatten(leaves, "document", whole)
	return leaves
}

func fileLeaves(at, path, content string) map[string]string {
	leaves := map[string]string{}
	switch {
	case strings.HasPrefix(path, onworker.UnitDir):
		for i, line := range strings.Split(content, "\n") {
			unitLine(leaves, fmt.Sprintf("%s line %d", at, i), line)
		}
	case path == KubeletConfiguration:
		parsed := map[string]any{}
		if err := yaml.Unmarshal([]byte(content), &parsed); err != nil {
			leaves[at] = content
		}
		flatten(leaves, at, parsed)
	case strings.HasPrefix(path, registryDir) && strings.HasSuffix(path, "/hosts.toml"):
		parsed := map[string]any{}
		if err := toml.Unmarshal([]byte(content), &parsed); err != nil {
			leaves[at] = content
		}
		flatten(leaves, at, parsed)
	case path == software.DocumentFile:
		parsed := map[string]any{}
		if err := json.Unmarshal([]byte(content), &parsed); err != nil {
			leaves[at] = content
		}
		flatten(leaves, at, parsed)
	case path == onworker.ProxyFile:
		for i, line := range strings.Split(content, "\n") {
			leaves[fmt.Sprintf("%s line %d", at, i)] = line
		}
	default:
		leaves[at] = content
	}
	return leaves
}

// unitLine takes a command line of a unit to pieces.
func unitLine(leaves map[string]string, at, line string) {
	command, found := strings.CutPrefix(line, "ExecStart=")
	words, err := split(strings.TrimSuffix(command, " $KUBELET_EXTRA_ARGS"))
	if !found || err != nil {
		leaves[at] = line
		return
	}
	for i, word := range words {
		leaves[fmt.Sprintf("%s word %d", at, i)] = word
	}
}

func flatten(leaves map[string]string, at string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, element := range value {
			flatten(leaves, at+"."+key, element)
		}
	case []any:
		for i, element := range value {
			flatten(leaves, fmt.Sprintf("%s[%d]", at, i), element)
		}
	case string:
		leaves[at] = value
	default:
		leaves[at] = fmt.Sprintf("%T %v", value, value)
	}
}

// bootstrapLines are the command lines of the bootstrap unit.
func bootstrapLines(files map[string]string) []string {
	var lines []string
	for line := range strings.SplitSeq(files[onworker.UnitDir+onworker.BootstrapUnit], "\n") {
		if command, found := strings.CutPrefix(line, "ExecStart="); found {
			lines = append(lines, command)
		}
	}
	return lines
}
