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

// Only those who read and write stores have a client of S3: the managers tell members of etcd what to do.
func TestManagersHaveNoClientOfS3(t *testing.T) {
	const client = "github.com/aws/"
	if kok := packagesOf(t, "./cmd/kok"); !strings.Contains(kok, client) {
		t.Errorf("kok itself has none:\n%s", kok)
	}
	for _, program := range []string{"./controlplane", "./bootstrap", "./infrastructure"} {
		if strings.Contains(packagesOf(t, program), client) {
			t.Errorf("%s imports %s", program, client)
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
