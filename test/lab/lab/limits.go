package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// limits of the machine, below /proc/sys, that the programs of several hosts share and soon exceed: each systemd,
// kubelet and apiserver watches files, and Debian grants 128 watchers to a user. Down gives the old values back.
var limits = map[string]int{
	"fs/inotify/max_user_instances": 4096,
	"fs/inotify/max_user_watches":   1048576,
}

func (l *Lab) limitsPath() string { return filepath.Join(l.state, "machine-limits.json") }

// raiseLimits raises what is lower, after it wrote down the values to return to.
func (l *Lab) raiseLimits() error {
	before, err := l.limitsBefore()
	if err != nil {
		return err
	}
	raise := map[string]int{}
	for name, want := range limits {
		now, err := readLimit(name)
		if err != nil {
			return err
		}
		if now >= want {
			continue
		}
		raise[name] = want
		if _, known := before[name]; !known {
			before[name] = now
		}
	}
	data, err := json.Marshal(before)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.limitsPath(), data, 0o644); err != nil {
		return err
	}
	return writeLimits(raise)
}

// restoreLimits gives back what raiseLimits changed.
func (l *Lab) restoreLimits() error {
	before, err := l.limitsBefore()
	if err != nil {
		return err
	}
	if err := writeLimits(before); err != nil {
		return err
	}
	return ignoreMissing(os.Remove(l.limitsPath()))
}

func (l *Lab) limitsBefore() (map[string]int, error) {
	before := map[string]int{}
	data, err := os.ReadFile(l.limitsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return before, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &before); err != nil {
		return nil, fmt.Errorf("read %s: %w", l.limitsPath(), err)
	}
	return before, nil
}

func readLimit(name string) (int, error) {
	data, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(data)))
}

func writeLimits(values map[string]int) error {
	for name, value := range values {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(strconv.Itoa(value)), 0); err != nil {
			return fmt.Errorf("set the machine's %s to %d: %w", name, value, err)
		}
	}
	return nil
}
