package program_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/internal/nodetest"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/kubelet"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/node"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/program"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

var first = wanted.Order{Rotation: "2030-01-02T03:04:05Z", Step: 1}

// newProgram is a run on a node where kubelet's process cannot be found out.
func newProgram(t *testing.T, w wanted.Wanted, hash string) *program.Program {
	t.Helper()
	folder := t.TempDir()
	for name, content := range w.Files() {
		nodetest.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	n := &node.Node{Log: logr.Discard(), Find: func() (*kubelet.Process, error) { return nil, errors.New("two processes are called kubelet") }}
	return &program.Program{Node: n, Folder: folder, Hash: hash, Lock: filepath.Join(folder, "lock"), Status: filepath.Join(folder, "status.json"), Patience: 5 * time.Minute}
}

func TestTheProgramEndsWithWhatItWaitsFor(t *testing.T) {
	ca := nodetest.NewCA(t)
	synctest.Test(t, func(t *testing.T) {
		w := wanted.Wanted{Trusted: ca.PEM, Order: first}
		p, began := newProgram(t, w, w.Hash()), time.Now()
		if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "two processes") {
			t.Errorf("it ends with %v", err)
		}
		if took := time.Since(began); took < p.Patience || took > p.Patience+time.Minute {
			t.Errorf("it waits for %s", took)
		}
		if err := program.Ready(p.Status, time.Now()); err == nil || !strings.Contains(err.Error(), "two processes") {
			t.Errorf("the pod is not ready for %v", err)
		}
	})
}

func TestAPodWaitsForTheFilesOfItsOwnPhase(t *testing.T) {
	ca := nodetest.NewCA(t)
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(t, wanted.Wanted{Trusted: ca.PEM, Order: first}, wanted.Wanted{Trusted: ca.PEM, Signer: ca.PEM, Order: first}.Hash())
		if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another phase") {
			t.Errorf("it ends with %v", err)
		}
	})
}

func TestOneProgramAtATimeWorksOnANode(t *testing.T) {
	ca := nodetest.NewCA(t)
	synctest.Test(t, func(t *testing.T) {
		w := wanted.Wanted{Trusted: ca.PEM, Order: first}
		one, second := newProgram(t, w, w.Hash()), newProgram(t, w, w.Hash())
		second.Lock = one.Lock
		if err := one.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "two processes") {
			t.Errorf("the first ends with %v", err)
		}
		// The lock is its process's, which is this one's, too.
		if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another pod of kok-node-keys") {
			t.Errorf("the second ends with %v", err)
		}
		runtime.KeepAlive(one)
	})
}

func TestTheProgramEndsWithoutAMistakeWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newProgram(t, wanted.Wanted{}, "").Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestReady(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"as wanted":     {`{"at":"2026-01-01T00:00:00Z"}`, ""},
		"not as wanted": {`{"at":"2026-01-01T00:00:00Z","problem":"kubelet does not run"}`, "kubelet does not run"},
		"too old":       {`{"at":"2025-12-31T23:57:00Z"}`, "last looked at 3m0s ago"},
		"damaged":       {`{`, "unexpected end"},
		"not there":     {"", "was not looked at yet"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "status.json")
			if test.content != "" {
				nodetest.Must(t, os.WriteFile(file, []byte(test.content), 0o600))
			}
			err := program.Ready(file, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
