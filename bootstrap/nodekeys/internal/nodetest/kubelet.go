package nodetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/nodekeys/kubelet"
)

// filesVariable names, to a process in kubelet's place, the files that it reads when it starts.
const filesVariable = "NODETEST_KUBELET_FILES"

// Main is the first call of TestMain: in a process in kubelet's place it does not return.
func Main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	folder := os.Getenv(filesVariable)
	if folder == "" {
		return
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	if err := os.WriteFile(filepath.Join(folder, "kubelet-has-read"), []byte(atStart(folder)), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-told
	os.Exit(0)
}

// atStart is the content of all files that kubelet reads only when it starts.
func atStart(folder string) string {
	var all strings.Builder
	for _, name := range []string{"kubelet.conf", "pki/kubelet-client-current.pem", "pki/kubelet-server-current.pem"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		fmt.Fprintf(&all, "%s %v\n%s\n", name, err, content)
	}
	return all.String()
}

// Kubelet is a process in kubelet's place, with a service manager that starts it again.
type Kubelet struct {
	name   string
	read   string
	starts atomic.Int32
	ended  sync.WaitGroup
	stop   chan struct{}
}

var number atomic.Int32

// StartKubelet starts a process, and starts it again whenever it ends.
func (m Machine) StartKubelet(t *testing.T) *Kubelet {
	t.Helper()
	own, err := os.Executable()
	Must(t, err)
	// The kernel keeps 15 bytes of a name. No process of this machine may be met that is not this test's.
	k := &Kubelet{name: fmt.Sprintf("kl%d-%d", os.Getpid(), number.Add(1)), read: m.Path("kubelet-has-read"), stop: make(chan struct{})}
	program := m.Path(k.name)
	Must(t, os.Symlink(own, program))
	k.ended.Go(func() {
		for {
			command := exec.Command(program, m.Args()...)
			command.Env = append(os.Environ(), filesVariable+"="+m.Folder)
			k.starts.Add(1)
			if err := command.Start(); err != nil {
				t.Errorf("start a process in kubelet's place: %v", err)
				return
			}
			over := make(chan struct{})
			go func() {
				_ = command.Wait() // A signal ends it.
				close(over)
			}()
			select {
			case <-over:
			case <-k.stop:
				_ = command.Process.Kill()
				<-over
				return
			}
		}
	})
	t.Cleanup(func() { close(k.stop); k.ended.Wait() })
	return k
}

// Find finds the process.
func (k *Kubelet) Find() (*kubelet.Process, error) { return kubelet.Find(k.name) }

// Starts is how often it was started.
func (k *Kubelet) Starts() int { return int(k.starts.Load()) }

// HasRead reports whether the process that runs has read, when it started, what the files have now.
func (m Machine) HasRead(t *testing.T) bool {
	t.Helper()
	return m.Read(t, "kubelet-has-read") == atStart(m.Folder)
}

// Running waits until a process runs that has another ID than the one before, and has read its files.
func (k *Kubelet) Running(t *testing.T, before string) *kubelet.Process {
	t.Helper()
	var found *kubelet.Process
	Must(t, wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		if _, err := os.Stat(k.read); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		var err error
		found, err = k.Find()
		return found != nil && found.ID() != before, err
	}))
	return found
}
