package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what the processes of a host use together.
type Usage struct {
	// CPU is the processor time used since the host booted.
	CPU time.Duration
	// Memory is in bytes, without file contents that the kernel can drop.
	Memory uint64
}

// Usage reads the host's cgroups.
func (h *Host) Usage() (Usage, error) {
	var u Usage
	r, err := h.loadRun()
	if err != nil {
		return u, err
	}
	if !h.Booted() {
		return u, fmt.Errorf("host %s is powered off", h.Name)
	}
	for _, g := range r.Groups {
		if v, err := readNumber(filepath.Join(g.Path, "cpuacct.usage")); err == nil {
			u.CPU = time.Duration(v)
		} else if v, err := readField(filepath.Join(g.Path, "cpu.stat"), "usage_usec"); err == nil && u.CPU == 0 {
			u.CPU = time.Duration(v) * time.Microsecond
		}
		for usage, inactive := range map[string]string{"memory.usage_in_bytes": "total_inactive_file", "memory.current": "inactive_file"} {
			v, err := readNumber(filepath.Join(g.Path, usage))
			if err != nil {
				continue
			}
			file, err := readField(filepath.Join(g.Path, "memory.stat"), inactive)
			if err != nil {
				return u, err
			}
			u.Memory = v - min(v, file)
		}
	}
	return u, nil
}

func readNumber(path string) (uint64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(bytes.TrimSpace(data)), 10, 64)
}

// readField reads a number from a file of lines "name value".
func readField(path, name string) (uint64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for scanner.Scan() {
		if f := strings.Fields(scanner.Text()); len(f) == 2 && f[0] == name {
			return strconv.ParseUint(f[1], 10, 64)
		}
	}
	return 0, errors.Join(scanner.Err(), fmt.Errorf("%s has no %s", path, name))
}
