// Package kubelet finds the process of kubelet, and the files that it was started with.
package kubelet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Name is what the kernel calls kubelet's process.
const Name = "kubelet"

// ticks is how many clock ticks a second has in /proc, on every architecture that Go knows (USER_HZ).
const ticks = 100

// Process is one process.
type Process struct {
	PID int
	// Start is when it started, in ticks since the machine booted. With the PID it names the process until the next boot.
	Start uint64
	// Started is the same as a time.
	Started time.Time
	// Args are its arguments, without its name.
	Args []string
}

// ID names the process until the next boot.
func (p *Process) ID() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", p.PID, p.Start)
}

// Arg is the value of an argument, without leading dashes; empty when the process has none.
func (p *Process) Arg(name string) string {
	if p == nil {
		return ""
	}
	value := ""
	for i, arg := range p.Args {
		flag, is, found := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case flag != name || !strings.HasPrefix(arg, "-"):
		case found:
			value = is // The last one counts.
		case i+1 < len(p.Args):
			value = p.Args[i+1]
		}
	}
	return value
}

// Find finds the process of a name in the PID namespace of this program: kubelets of clusters in containers are not this node's. It is nil
// when there is none.
func Find(name string) (*Process, error) {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found *Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if comm, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "comm")); err != nil || string(bytes.TrimSpace(comm)) != name {
			continue // It is another one, or has ended.
		}
		process, err := read(pid, namespace)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH):
		case err != nil:
			return nil, fmt.Errorf("look at process %d, %s: %w", pid, name, err)
		case process == nil:
		case found != nil:
			return nil, fmt.Errorf("processes %d and %d are both called %s: which one is this node's is not known", found.PID, pid, name)
		default:
			found = process
		}
	}
	return found, nil
}

// read is nil for a process that has ended, or is in another PID namespace.
func read(pid int, namespace string) (*Process, error) {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	if is, err := os.Readlink(filepath.Join(folder, "ns", "pid")); err != nil || is != namespace {
		return nil, err
	}
	start, running, err := stat(folder)
	if err != nil || !running {
		return nil, err
	}
	line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	if err != nil {
		return nil, err
	}
	since := unix.Timespec{}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since); err != nil {
		return nil, err
	}
	booted := time.Now().Add(-time.Duration(since.Nano()))
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	return &Process{PID: pid, Start: start, Started: booted.Add(time.Duration(start) * time.Second / ticks), Args: args[1:]}, nil
}

// stat reads when a process started, and whether it still runs: one that nobody waited for is there after its end.
func stat(folder string) (start uint64, running bool, err error) {
	line, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return 0, false, err
	}
	// The name, in parentheses, may have spaces. The state is the third field, the start the twenty-second (proc_pid_stat(5)).
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) < 20 {
		return 0, false, fmt.Errorf("%s/stat has %d fields", folder, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0] != "Z" && fields[0] != "X", err
}

// Terminate tells the process to end, and no other that got its PID meanwhile.
func (p *Process) Terminate() error {
	handle, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", p.PID, err)
	}
	defer func() { _ = unix.Close(handle) }()
	start, running, err := stat(filepath.Join("/proc", strconv.Itoa(p.PID)))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || err == nil && (!running || start != p.Start) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send SIGTERM to process %d: %w", p.PID, err)
	}
	return nil
}
