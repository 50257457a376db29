package artifacts

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// publish makes the folder or file final by calling fill with a temporary path beside it and renaming the result.
func publish(final string, fill func(tmp string) error) error {
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return err
	}
	tmp := final + ".partial"
	if err := removeTree(tmp); err != nil {
		return fmt.Errorf("remove what an interrupted run left: %w", err)
	}
	if err := fill(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, final)
}

// removeTree removes a folder of the cache, unless something is mounted in it: the content of a mount is not ours.
func removeTree(path string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if at := mountBelow(mounts, path); at != "" {
		return fmt.Errorf("%s is mounted there: unmount it, and see what still uses it", at)
	}
	return os.RemoveAll(path)
}

// mountBelow returns a mount point at or below a path, in a text like /proc/self/mountinfo.
func mountBelow(mountinfo []byte, path string) string {
	for line := range bytes.Lines(mountinfo) {
		fields := strings.Fields(string(line))
		const mountPoint = 4
		if len(fields) > mountPoint && (fields[mountPoint] == path || strings.HasPrefix(fields[mountPoint], path+"/")) {
			return fields[mountPoint]
		}
	}
	return ""
}
