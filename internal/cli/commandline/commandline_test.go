package commandline

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli"
)

func TestCallsAreFoundInLines(t *testing.T) {
	for line, want := range map[string][][]string{
		"kok status blue":                                  {{"status", "blue"}},
		"kubectl kok status blue -o json | jq .":           {{"status", "blue", "-o", "json"}},
		"until kok hosts check a; do sleep 15; done":       {{"hosts", "check", "a"}},
		"if ! kok status blue > out; then kok version; fi": {{"status", "blue"}, {"version"}},
		`kok hosts add a --user "x y" --key '~/k'`:         {{"hosts", "add", "a", "--user", "x y", "--key", "~/k"}},
		"kok-apiserver-lb status":                          nil,
		"install kok-v0.1.0 /usr/local/bin/kok":            nil,
		"# kok status of nothing":                          nil,
		"kok":                                              {nil},
	} {
		got := Calls(line)
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestWhatTheProgramWouldRefuseIsFound(t *testing.T) {
	for line, want := range map[string]string{
		"kok status blue --namespace team -o yaml":                                     "",
		"kok hosts add a --address 192.0.2.7 --user u --key k --label a=b --label c=d": "",
		"kok completion bash":                 "",
		"kok help status":                     "",
		"kok hosts add --help":                "",
		"kok --version":                       "",
		"kok statuses blue":                   "kok has no command statuses",
		"kok hosts list":                      "kok hosts has no command list",
		"kok status blue --out json":          "unknown flag: --out",
		"kok status":                          "accepts 1 arg(s), received 0",
		"kok hosts add a --address 192.0.2.7": `required flag(s) "key", "user" not set`,
	} {
		_, err := Check(Calls(line)[0])
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// Help is what people learn the program from.
func TestEveryCommandTeaches(t *testing.T) {
	examples := 0
	for _, program := range []string{"kok", "kubectl kok"} {
		root := cli.New(program, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: io.Discard, ErrOut: io.Discard})
		Each(root, func(command *cobra.Command) {
			if command.Short == "" || command.Long == "" {
				t.Errorf("%s has no text", command.CommandPath())
			}
			if command.HasSubCommands() {
				return
			}
			if !strings.Contains(command.Example, program+" ") {
				t.Errorf("%s has no example that calls %s:\n%s", command.CommandPath(), program, command.Example)
			}
			if !strings.HasPrefix(command.UseLine(), program+" ") {
				t.Errorf("its usage is %s", command.UseLine())
			}
			for line := range strings.Lines(strings.ReplaceAll(command.Example, "\\\n", " ")) {
				for _, arguments := range Calls(strings.TrimSpace(line)) {
					examples++
					if _, err := Check(arguments); err != nil {
						t.Errorf("%s: %v in %s", command.CommandPath(), err, line)
					}
				}
			}
		})
	}
	if examples < 16 {
		t.Errorf("only %d examples were found", examples)
	}
}
