package look

import (
	"os/exec"
	"strings"
	"testing"
)

// etcd's server is half as large as a manager: only programs that run beside etcd may have it.
func TestNoOtherProgramHasEtcdsServer(t *testing.T) {
	agent := packagesOf(t, "./controlplane/etcd/agent/cmd/kok-etcd-agent")
	if !strings.Contains(agent, "go.etcd.io/etcd/server/") {
		t.Errorf("the agent itself does not have etcd's server:\n%s", agent)
	}
	for _, program := range []string{
		"./controlplane", "./bootstrap", "./infrastructure", "./cmd/kok", "./bootstrap/apiserverlb/cmd/kok-apiserver-lb", "./bootstrap/software/cmd/kok-software",
		"./controlplane/etcd/agent/facts",
	} {
		for path := range strings.Lines(packagesOf(t, program)) {
			for _, module := range []string{"go.etcd.io/etcd/server/", "go.etcd.io/etcd/pkg/", "go.etcd.io/raft/", "go.etcd.io/bbolt"} {
				if strings.HasPrefix(path, module) {
					t.Errorf("%s imports %s", program, path)
				}
			}
		}
	}
}

// packagesOf are all packages that a program is made of, one a line.
func packagesOf(t *testing.T, program string) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", program)
	list.Dir = "../../../.."
	out, err := list.Output()
	must(t, err)
	return string(out)
}
