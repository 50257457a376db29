package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
)

// trial is an etcd that runs on a restored directory, for nobody but this program: it listens at sockets in a folder of its own.
type trial struct {
	command *exec.Cmd
	client  *clientv3.Client
	folder  *os.File
	ended   chan struct{}
	said    *head
}

// Names in the folder of a trial. etcd is started in it, for the path of a socket is short. It wants a port in the name.
const (
	trialName    = "trial"
	clientSocket = "client:1"
	peerURL      = "unix://peer:1"
)

// grace is how long a trial may take to end by itself.
const grace = 5 * time.Second

// startTrial starts etcd on a data directory in a folder, with more flags.
func startTrial(program, folder, data string, flags ...string) (t *trial, err error) {
	t = &trial{ended: make(chan struct{}), said: &head{left: maxSaid}}
	defer func() {
		if err != nil {
			t.end()
		}
	}()
	if t.folder, err = os.Open(folder); err != nil {
		return t, err
	}
	t.command = exec.Command(program, append([]string{"--name=" + trialName, "--data-dir=" + data, "--listen-client-urls=unix://" + clientSocket, "--advertise-client-urls=unix://" + clientSocket,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=" + trialName + "=" + peerURL, "--listen-metrics-urls=",
		"--enable-grpc-gateway=false", "--unsafe-no-fsync", "--quota-backend-bytes=-1", "--log-level=warn",
		// It elects itself at once.
		"--heartbeat-interval=10", "--election-timeout=100"}, flags...)...)
	t.command.Dir, t.command.Stdout, t.command.Stderr = folder, t.said, t.said
	for _, variable := range os.Environ() {
		// etcd takes flags from there.
		if !strings.HasPrefix(variable, "ETCD_") {
			t.command.Env = append(t.command.Env, variable)
		}
	}
	t.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := t.command.Start(); err != nil {
		t.command = nil
		return t, fmt.Errorf("start etcd as a trial: %w", err)
	}
	go func() {
		_ = t.command.Wait()
		close(t.ended)
	}()
	// The path of a socket has at most 107 bytes; one through an open folder is short.
	socket := filepath.Join("/proc/self/fd", strconv.Itoa(int(t.folder.Fd())), clientSocket) //nolint:gosec // A file descriptor.
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	})
	t.client, err = clientv3.New(clientv3.Config{Endpoints: []string{endpointOfTrial}, DialOptions: []grpc.DialOption{dial}, Logger: zap.NewNop()})
	return t, err
}

// endpointOfTrial is never dialled.
const endpointOfTrial = "http://trial.invalid:2379"

// end ends the trial.
func (t *trial) end() {
	if t.client != nil {
		_ = t.client.Close()
	}
	if t.command != nil {
		_ = t.command.Process.Signal(syscall.SIGTERM)
		select {
		case <-t.ended:
		case <-time.After(grace):
			_ = t.command.Process.Kill()
			<-t.ended
		}
	}
	if t.folder != nil {
		_ = t.folder.Close()
	}
}

// errEnded says that the trial ended before it answered.
var errEnded = errors.New("etcd ended")

// ready waits until the trial answers.
func (t *trial) ready(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-t.ended:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	for {
		asked, stop := context.WithTimeout(ctx, time.Second)
		_, err := t.client.Get(asked, trialName, clientv3.WithCountOnly())
		stop()
		if err == nil {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// compare refuses a snapshot from which etcd does not start, or is not as the member was.
func (t *trial) compare(ctx context.Context, m archive.Manifest) (archive.Verification, error) {
	const wayOut = "take another snapshot, and compare the member that it was taken of with the others"
	if err := t.ready(ctx); err != nil {
		if !errors.Is(err, errEnded) || !t.crashed() {
			return archive.Verification{}, fmt.Errorf("start etcd from %s as a trial: %w: %s", m.Object, err, lastLine(t.said.String()))
		}
		return archive.Verification{}, archive.Refuse(archive.HashDiffers, "etcd does not start from %s (%s): %s", m.Object, lastLine(t.said.String()), wayOut)
	}
	status, err := t.client.Status(ctx, endpointOfTrial)
	if err != nil {
		return archive.Verification{}, fmt.Errorf("ask the trial of %s: %w", m.Object, err)
	}
	if status.Header.Revision < m.Revision {
		return archive.Verification{}, archive.Refuse(archive.HashDiffers, "%s has revision %d, and the member had %d: %s", m.Object, status.Header.Revision, m.Revision, wayOut)
	}
	hash, err := t.client.HashKV(ctx, endpointOfTrial, m.Revision)
	if err != nil {
		return archive.Verification{}, fmt.Errorf("ask the trial of %s for its hash: %w", m.Object, err)
	}
	if max(hash.CompactRevision, 0) != max(m.CompactRevision, 0) || hash.Hash != m.HashKV {
		return archive.Verification{}, archive.Refuse(archive.HashDiffers, "at revision %d %s has hash %d after compact revision %d, and the member had %d after %d: %s",
			m.Revision, m.Object, hash.Hash, hash.CompactRevision, m.HashKV, m.CompactRevision, wayOut)
	}
	return archive.Verification{EtcdVersion: status.Version, Revision: status.Header.Revision}, nil
}

// crashed reports that etcd ended because of what it read: it panics, or says that this is fatal. What it lacks is no such reason.
func (t *trial) crashed() bool {
	said := t.said.String()
	return !t.command.ProcessState.Sys().(syscall.WaitStatus).Signaled() && !outOfRoom(said) &&
		(strings.Contains(said, "panic: ") || strings.Contains(said, "fatal error: ") || strings.Contains(lastLine(said), `"level":"fatal"`))
}

// lastLine is what etcd said last.
func lastLine(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return limited(lines[len(lines)-1])
}

var etcdVersion = regexp.MustCompile(`(?m)^etcd Version: ([0-9]+\.[0-9]+\.[0-9]+\S*)$`)

// VersionOf asks the program of etcd for its version.
func VersionOf(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	found := etcdVersion.FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("ask %s for its version: it says %.100q", program, out)
	}
	return string(found[1]), nil
}
