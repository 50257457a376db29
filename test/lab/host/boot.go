package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// run records what a booted host consists of.
type run struct {
	Groups     []controlGroup `json:"cgroups"`
	Supervisor process        `json:"supervisor"`
	Init       process        `json:"init"`
}

func (h *Host) loadRun() (run, error) {
	var r run
	data, err := os.ReadFile(h.path("run.json"))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// Booted tells whether the host runs.
func (h *Host) Booted() bool {
	r, err := h.loadRun()
	return err == nil && r.Supervisor.alive() && r.Init.alive()
}

// Boot starts the host and waits until its systemd has started the basic system; a host that runs is left as it is.
// The host is detached: it outlives the caller. Its console goes to the file Console names.
func (h *Host) Boot(ctx context.Context) error {
	if h.Booted() {
		return h.waitBasic(ctx)
	}
	if err := h.PowerOff(ctx); err != nil { // what an interrupted boot left behind
		return err
	}
	if err := h.mount(); err != nil {
		return err
	}
	if err := h.wire(); err != nil {
		return err
	}
	if err := h.spawn(ctx); err != nil {
		return fmt.Errorf("boot %s: %w (its console is in %s)", h.Name, err, h.Console())
	}
	return h.waitBasic(ctx)
}

// PowerOn is Boot.
func (h *Host) PowerOn(ctx context.Context) error { return h.Boot(ctx) }

// Console is the file that the host's console is written to.
func (h *Host) Console() string { return h.path("console.log") }

// spawn starts systemd-nspawn in the host's own cgroups and waits for the host's process number 1.
func (h *Host) spawn(ctx context.Context) error {
	program, err := exec.LookPath("systemd-nspawn")
	if err != nil {
		return fmt.Errorf("systemd-nspawn is missing (apt-get install systemd-container): %w", err)
	}
	groups, err := controlGroupsFor(h.network.name("lab-" + h.Name))
	if err != nil {
		return err
	}
	r := run{Groups: groups}
	if err := writeJSON(h.path("run.json"), r); err != nil { // before there is anything to find again
		return err
	}
	if err := makeControlGroups(groups); err != nil {
		return err
	}
	console, err := os.OpenFile(h.Console(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer console.Close() //nolint:errcheck // the child has its own descriptor
	arguments := []string{
		"-q", "-D", h.path("root"), "--boot", "--machine=" + h.network.name(h.Name), "--hostname=" + h.Name,
		"--register=no", "--keep-unit", "--network-namespace-path=" + filepath.Join(namespaces, h.namespace()),
		"--console=pipe", "--capability=all", "--system-call-filter=@keyring bpf", "--bind=/dev/kmsg",
		"--resolv-conf=off", "--link-journal=no", "--timezone=off",
		// From version 256 on systemd starts on cgroup v1 only if it is told to.
		"--setenv=SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1",
	}
	for _, d := range ownDirectories {
		arguments = append(arguments, "--bind="+h.path("own", d)+":"+d)
	}
	cmd := exec.Command(program, arguments...)
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes")
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := startIn(groups, cmd); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if r.Supervisor, err = identify(cmd.Process.Pid); err != nil {
		return err
	}
	if err := writeJSON(h.path("run.json"), r); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		select {
		case err := <-ended:
			return false, fmt.Errorf("systemd-nspawn ended: %w", err)
		default:
		}
		pid := initOf(r.Supervisor.PID)
		if pid == 0 {
			return false, nil
		}
		r.Init, err = identify(pid)
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for process number 1: %w", err)
	}
	return writeJSON(h.path("run.json"), r)
}

// waitBasic waits until systemd in the host answers and reached basic.target.
func (h *Host) waitBasic(ctx context.Context) error {
	r, err := h.loadRun()
	if err != nil {
		return err
	}
	socket := filepath.Join("/proc", strconv.Itoa(r.Init.PID), "root/run/systemd/private")
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		if !r.Init.alive() {
			return false, errors.New("its process number 1 ended")
		}
		_, err := os.Stat(socket)
		return err == nil, nil
	})
	if err == nil {
		_, err = h.Exec(ctx, nil, "systemctl", "start", "basic.target")
	}
	if err != nil {
		return fmt.Errorf("boot %s: %w (its console is in %s)", h.Name, err, h.Console())
	}
	return nil
}

// PowerOff takes the host's power: it vanishes from its network, all its processes are killed, its mounts, cgroups and
// network namespace are removed. Its disk stays. A host that is off stays off.
func (h *Host) PowerOff(ctx context.Context) error {
	r, err := h.loadRun()
	if err != nil {
		return err
	}
	if err := h.unplug(); err != nil {
		return err
	}
	for _, p := range []process{r.Init, r.Supervisor} {
		if !p.alive() {
			continue
		}
		if err := p.kill(ctx); err != nil {
			return fmt.Errorf("power off %s: %w", h.Name, err)
		}
	}
	if err := killControlGroups(r.Groups); err != nil {
		return fmt.Errorf("power off %s: %w", h.Name, err)
	}
	if err := removeControlGroups(ctx, r.Groups); err != nil {
		return fmt.Errorf("power off %s: %w", h.Name, err)
	}
	if err := h.unwire(); err != nil {
		return fmt.Errorf("power off %s: %w", h.Name, err)
	}
	if err := h.forget(); err != nil {
		return err
	}
	if err := h.unmount(ctx); err != nil {
		return err
	}
	if err := os.Remove(h.path("run.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// forget removes what systemd-nspawn has no chance to remove when it is killed.
func (h *Host) forget() error {
	machine := h.network.name(h.Name)
	left := []string{filepath.Join("propagate", machine), filepath.Join("unix-export", machine)}
	var root unix.Stat_t
	if err := unix.Stat(h.path("root"), &root); err == nil {
		left = append(left, filepath.Join("locks", fmt.Sprintf("inode-%d:%d", root.Dev, root.Ino)))
	}
	for _, path := range left {
		if err := os.RemoveAll(filepath.Join("/run/systemd/nspawn", path)); err != nil {
			return err
		}
	}
	return nil
}

// Stop shuts the host down in order, and takes its power when it has not ended in the given time.
func (h *Host) Stop(ctx context.Context, limit time.Duration) error {
	r, err := h.loadRun()
	if err != nil {
		return err
	}
	if h.Booted() {
		fd, err := unix.PidfdOpen(r.Init.PID, 0)
		if err == nil && r.Init.alive() {
			// SIGRTMIN+4 asks systemd to power off; see systemd(1).
			if err = unix.PidfdSendSignal(fd, unix.Signal(34+4), nil, 0); err == nil {
				_ = waitEnd(ctx, fd, limit)
			}
			_ = unix.Close(fd)
		}
	}
	return h.PowerOff(ctx)
}

// Remove takes the host's power and removes its disk.
func (h *Host) Remove(ctx context.Context) error {
	if err := h.PowerOff(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(h.directory); err != nil {
		return fmt.Errorf("remove host %s: %w", h.Name, err)
	}
	return nil
}
