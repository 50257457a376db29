package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process that the lab started, told apart from a later one with the same number by its start.
type process struct {
	PID int `json:"pid"`
	// Start is in clock ticks since the machine booted.
	Start uint64 `json:"start"`
	// Boot is the machine's boot.
	Boot string `json:"boot"`
}

// identify records a running process.
func identify(pid int) (process, error) {
	stat, err := readStat(pid)
	if err != nil {
		return process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, err
	}
	return process{PID: pid, Start: stat.start, Boot: string(bytes.TrimSpace(boot))}, nil
}

// alive tells whether it is this very process that still runs.
func (p process) alive() bool {
	if p.PID <= 1 {
		return false
	}
	stat, err := readStat(p.PID)
	if err != nil || stat.state == "Z" {
		return false
	}
	now, err := identify(p.PID)
	return err == nil && now == p
}

// kill ends the process at once and waits until it is gone, for at most a minute: a host's processes end with its first.
func (p process) kill(ctx context.Context) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", p.PID, err)
	}
	defer unix.Close(fd) //nolint:errcheck // only a descriptor
	if !p.alive() {
		return nil // the descriptor may be another process's: it is left alone
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d: %w", p.PID, err)
	}
	return waitEnd(ctx, fd, time.Minute)
}

// waitEnd waits until the process of a descriptor ended.
func waitEnd(ctx context.Context, fd int, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
	}
	return fmt.Errorf("process still runs after %s", limit)
}

type stat struct {
	state  string
	parent int
	start  uint64
}

// readStat reads /proc/<pid>/stat; the name in brackets may hold anything.
func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("process %d: unexpected stat", pid)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, err
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return stat{state: fields[0], parent: parent, start: start}, err
}

// initOf finds the process that is number 1 inside the host whose nspawn is the parent; 0 when there is none yet.
func initOf(parent int) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err != nil || s.parent != parent {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(data) {
			if numbers, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
				if f := bytes.Fields(numbers); len(f) > 1 && string(f[len(f)-1]) == "1" {
					return pid
				}
			}
		}
	}
	return 0
}
