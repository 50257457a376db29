package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
)

const (
	// portRange is the widest range of host ports that the manager takes, and blocks is how many tenants fit into it.
	portRange = "1024-29999"
	blocks    = 1447

	startLimit = 2 * time.Minute
	stopLimit  = time.Minute
)

// manager is one run of the manager's program.
type manager struct {
	program           *daemon.Daemon
	started           time.Time
	metrics, profiler string
	// apiServer is the host and port of the management cluster's API server, as metrics of requests name it.
	apiServer string
}

// startManager starts the program with the flags of an installation, and returns when its webhooks are served. It leaves the election of a
// leader off, which works in pods alone.
func startManager(ctx context.Context, s *stage, o *options) (*manager, error) {
	m := &manager{started: time.Now()}
	at, err := url.Parse(s.config.Host)
	if err != nil {
		return nil, err
	}
	m.apiServer = at.Host
	health := ""
	for _, address := range []*string{&m.metrics, &m.profiler, &health} {
		if *address, err = freeAddress(); err != nil {
			return nil, err
		}
	}
	arguments := append([]string{
		o.manager, "--kubeconfig=" + s.kubeconfig, "--v=2",
		"--health-addr=" + health, "--diagnostics-address=" + m.metrics, "--insecure-diagnostics=true", "--profiler-address=" + m.profiler,
		"--webhook-port=" + strconv.Itoa(s.hooks.LocalServingPort), "--webhook-cert-dir=" + s.hooks.LocalServingCertDir,
		"--host-port-namespace=" + managerNamespace, "--kubernetes-versions-namespace=" + managerNamespace, "--host-port-range=" + portRange,
		"--etcd-agent-image=ghcr.io/kube-on-kube/kok-etcd-agent:dev", "--node-keys-image=ghcr.io/kube-on-kube/kok-node-keys:dev",
	}, o.managerFlags...)
	log := filepath.Join(cmp.Or(o.profiles, s.folder), "manager.log")
	if m.program, err = daemon.Start(log, arguments...); err != nil {
		return nil, err
	}
	err = m.program.While(ctx, func(ctx context.Context) error {
		return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startLimit, true, func(ctx context.Context) (bool, error) {
			_, err := get(ctx, "http://"+health+"/readyz")
			return err == nil, nil //nolint:nilerr // It is not ready yet.
		})
	})
	if err != nil {
		m.program.Kill()
		return nil, fmt.Errorf("start the manager: %w", err)
	}
	return m, nil
}

// stop ends the program as kubelet does.
func (m *manager) stop(ctx context.Context) error {
	if err := m.program.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	return m.program.Wait(ctx)
}

// freeAddress is one of this machine at which nobody listens now.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// usage is what the program has used since it started.
type usage struct {
	// cpu is in seconds, peak and resident in MiB.
	cpu, peak, resident float64
}

const mebibyte = 1 << 20

// usage reads /proc: peak is the kernel's own high-water mark.
func (m *manager) usage() (usage, error) {
	process, err := procfs.NewProc(m.program.PID())
	if err != nil {
		return usage{}, err
	}
	stat, err := process.Stat()
	if err != nil {
		return usage{}, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return usage{}, err
	}
	return usage{cpu: stat.CPUTime(), peak: float64(status.VmHWM) / mebibyte, resident: float64(status.VmRSS) / mebibyte}, nil
}

// profile keeps a profile of the program; what names it, and path is that of net/http/pprof.
func (m *manager) profile(ctx context.Context, folder, what, path string) error {
	if folder == "" {
		return nil
	}
	data, err := get(ctx, "http://"+m.profiler+"/debug/pprof/"+path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, what+".pprof"), data, 0o644)
}

func get(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // It is only read.
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", address, response.Status)
	}
	return body, err
}
