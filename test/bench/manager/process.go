package manager

import (
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
	startLimit = 2 * time.Minute
	stopLimit  = time.Minute
)

// Process is one run of a manager's program.
type Process struct {
	*daemon.Daemon

	Started           time.Time
	metrics, profiler string
	// apiServer is the host and port of the management cluster's API server, as metrics of requests name it.
	apiServer   string
	controllers []string
}

// Program says what is run.
type Program struct {
	// Path is that of the program, Log is the file that gets what it writes.
	Path, Log string
	// Flags are those beside what all managers need.
	Flags []string
	// Controllers are those whose reconciles are counted, by their names.
	Controllers []string
}

// Start starts a manager's program with the flags of an installation, and returns when its webhooks are served. It leaves the election
// of a leader off, which works in pods alone.
func Start(ctx context.Context, s *Stage, program Program) (*Process, error) {
	p := &Process{Started: time.Now(), controllers: program.Controllers}
	at, err := url.Parse(s.Config.Host)
	if err != nil {
		return nil, err
	}
	p.apiServer = at.Host
	health := ""
	for _, address := range []*string{&p.metrics, &p.profiler, &health} {
		if *address, err = freeAddress(); err != nil {
			return nil, err
		}
	}
	arguments := append([]string{
		program.Path, "--kubeconfig=" + s.kubeconfig, "--v=2",
		"--health-addr=" + health, "--diagnostics-address=" + p.metrics, "--insecure-diagnostics=true", "--profiler-address=" + p.profiler,
		"--webhook-port=" + strconv.Itoa(s.hooks.LocalServingPort), "--webhook-cert-dir=" + s.hooks.LocalServingCertDir,
	}, program.Flags...)
	if p.Daemon, err = daemon.Start(program.Log, arguments...); err != nil {
		return nil, err
	}
	err = p.While(ctx, func(ctx context.Context) error {
		return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startLimit, true, func(ctx context.Context) (bool, error) {
			_, err := get(ctx, "http://"+health+"/readyz")
			return err == nil, nil //nolint:nilerr // It is not ready yet.
		})
	})
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("start the manager: %w", err)
	}
	return p, nil
}

// Stop ends the program as kubelet does.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	return p.Wait(ctx)
}

// freeAddress is one of this machine at which nobody listens now.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// Usage is what the program has used since it started.
type Usage struct {
	// CPU is in seconds, Peak and Resident in MiB.
	CPU, Peak, Resident float64
}

const mebibyte = 1 << 20

// Usage reads /proc: Peak is the kernel's own high-water mark.
func (p *Process) Usage() (Usage, error) {
	process, err := procfs.NewProc(p.PID())
	if err != nil {
		return Usage{}, err
	}
	stat, err := process.Stat()
	if err != nil {
		return Usage{}, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return Usage{}, err
	}
	return Usage{CPU: stat.CPUTime(), Peak: float64(status.VmHWM) / mebibyte, Resident: float64(status.VmRSS) / mebibyte}, nil
}

// Collect has the program collect its garbage, so that its metrics tell what is live.
func (p *Process) Collect(ctx context.Context) error {
	_, err := get(ctx, "http://"+p.profiler+"/debug/pprof/heap?gc=1")
	return err
}

// Profile keeps a profile of the program in a folder, or nowhere when the folder is empty; what names it, and path is that of
// net/http/pprof.
func (p *Process) Profile(ctx context.Context, folder, what, path string) error {
	if folder == "" {
		return nil
	}
	data, err := get(ctx, "http://"+p.profiler+"/debug/pprof/"+path)
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
