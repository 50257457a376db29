package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

// What is wanted is read first: no file of this machine is looked at.
func TestThePodsStatusSaysWhatTheProgramWaitedFor(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{wanted.TrustedFile: "of another phase", wanted.OrderFile: "2030-01-02T03:04:05Z 1"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, log := filepath.Join(folder, "status.json"), filepath.Join(folder, "termination-log")
	execute := func(args ...string) error {
		command := newCommand()
		command.SetArgs(append(args, "--status="+status))
		return command.ExecuteContext(t.Context())
	}
	if err := execute("ready"); err == nil {
		t.Error("the pod is ready before the program ran")
	}
	err := execute("run", "--wanted="+folder, "--hash=0", "--patience=0", "--termination-log="+log)
	if err == nil || !strings.Contains(err.Error(), "another phase") {
		t.Errorf("it ends with %v", err)
	}
	if told, err := os.ReadFile(log); err != nil || !strings.Contains(string(told), "another phase") {
		t.Errorf("the pod's status says %q, %v", told, err)
	}
	if err := execute("ready"); err == nil || !strings.Contains(err.Error(), "another phase") {
		t.Errorf("the pod is not ready for %v", err)
	}
}
