// Package processes looks at containers from the machine that the lab's hosts run on: which processes
// they are, what these may do, and where they listen. It reads /proc, so that what it says is what the
// kernel enforces and not what a pod's spec asks for.
package processes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// proc is where the kernel tells about processes.
const proc = "/proc"

// Of finds the processes of containers, given by their runtime's IDs, on this machine. A container that
// has no process is not in the result.
func Of(containers []string) (map[string][]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	found := map[string][]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		groups, err := os.ReadFile(file(pid, "cgroup"))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the cgroups of process %d: %w", pid, err)
		}
		for _, container := range containers {
			if strings.Contains(string(groups), container) {
				found[container] = append(found[container], pid)
			}
		}
	}
	return found, nil
}

func file(pid int, parts ...string) string {
	return filepath.Join(append([]string{proc, strconv.Itoa(pid)}, parts...)...)
}

// gone is true for the error of reading about a process that ended meanwhile.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoProcess)
}
