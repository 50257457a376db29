package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// call runs a command line without a cluster, and returns its exit status and what it wrote.
func call(t *testing.T, arguments ...string) (status int, out, errOut string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var stdout, stderr bytes.Buffer
	status = Run(t.Context(), arguments, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr})
	return status, stdout.String(), stderr.String()
}

func TestTheProgramSaysByWhichNameItWasCalled(t *testing.T) {
	for _, test := range []struct{ called, want string }{
		{"/usr/local/bin/kok", "  kok hosts check [NAME...]"}, {"kubectl-kok", "  kubectl kok hosts check [NAME...]"},
		{"/opt/kubectl-kok.exe", "  kubectl kok hosts check [NAME...]"},
	} {
		if status, out, _ := call(t, test.called, "hosts", "check", "--help"); status != 0 || !strings.Contains(out, test.want) {
			t.Errorf("%s: %d\n%s", test.called, status, out)
		}
	}
}

func TestKubectlAsksForCompletions(t *testing.T) {
	status, out, _ := call(t, "kubectl_complete-kok", "hosts", "")
	if status != 0 || !strings.Contains(out, "add\t") || !strings.Contains(out, "check\t") {
		t.Errorf("%d\n%s", status, out)
	}
}

func TestFailuresAreOneSentenceWithTheWayOut(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"no cluster is named":    {[]string{"kok", "status", "blue"}, "kok: no cluster is chosen; name a kubeconfig file by --kubeconfig or in KUBECONFIG\n"},
		"a context that is none": {[]string{"kok", "hosts", "check", "--context", "none"}, "kubectl config get-contexts"},
		"nobody answers":         {[]string{"kok", "status", "blue", "--server", "https://127.0.0.1:1"}, "the API server https://127.0.0.1:1 does not answer: "},
		"a wrong flag":           {[]string{"kubectl-kok", "status", "blue", "--oops"}, "kubectl kok: unknown flag: --oops; kubectl kok status --help explains how it is called\n"},
		"a wrong output":         {[]string{"kok", "status", "blue", "-o", "xml"}, "want json or yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errOut := call(t, test.arguments...)
			if status != 2 || out != "" || !strings.Contains(errOut, test.want) || strings.Count(errOut, "\n") != 1 {
				t.Errorf("%d\n%s\n%s", status, out, errOut)
			}
		})
	}
}
