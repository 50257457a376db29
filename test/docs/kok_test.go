package docs

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/commandline"
)

// A command that a person copies has to be one that the program takes, with flags that there are.
func TestCommandsOfKokAreThoseThatThereAre(t *testing.T) {
	shown := map[string]bool{}
	for _, c := range commands(t) {
		for _, arguments := range commandline.Calls(c.line) {
			name, err := commandline.Check(arguments)
			if err != nil {
				t.Errorf("%s: %v: %s", c.file, err, c.line)
			}
			shown[name] = shown[name] || c.file == "kok.md"
		}
	}
	root := cli.New("kok", genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: io.Discard, ErrOut: io.Discard})
	commandline.Each(root, func(command *cobra.Command) {
		if !command.HasSubCommands() && !shown[command.CommandPath()] {
			t.Errorf("docs/kok.md does not show %s in use", command.CommandPath())
		}
	})
}

// What the program tells people to run is held to the same rules as documents.
func TestKokNamesDocumentsThatThereAre(t *testing.T) {
	all := pages(t)
	root := cli.New("kok", genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: io.Discard, ErrOut: io.Discard})
	commandline.Each(root, func(command *cobra.Command) {
		for word := range strings.FieldsSeq(command.Long) {
			if page := strings.TrimRight(word, ".,;"); strings.HasPrefix(page, "docs/") && all["../../"+page] == nil {
				t.Errorf("%s names %s, which is not there", command.CommandPath(), page)
			}
		}
	})
}
