package look

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// frozen reports whether the file system of a path can only be read, wherever it is mounted: the kernel does that to one whose
// disk gives errors. It returns false if it cannot find that out.
func frozen(path string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return false
	}
	device := strconv.FormatUint(uint64(unix.Major(s.Dev)), 10) + ":" + strconv.FormatUint(uint64(unix.Minor(s.Dev)), 10) //nolint:unconvert // Types differ by architecture.
	return readOnly(string(mounts), device)
}

// readOnly reads what proc_pid_mountinfo(5) describes: the options of the file system of a device are the last field.
func readOnly(mounts, device string) bool {
	for line := range strings.Lines(mounts) {
		mount, system, found := strings.Cut(line, " - ")
		fields, options := strings.Fields(mount), strings.Fields(system)
		if found && len(fields) > 2 && len(options) > 2 && fields[2] == device {
			return slices.Contains(strings.Split(options[2], ","), "ro")
		}
	}
	return false
}

// writable reports whether the owner, the group and the mode of a file let this user write it, whatever the mount says.
func writable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	bit := os.FileMode(0o002)
	switch {
	case os.Getuid() == 0:
		return nil
	case int(stat.Uid) == os.Getuid():
		bit = 0o200
	case slices.Contains(append(groups, os.Getgid()), int(stat.Gid)):
		bit = 0o020
	}
	if info.Mode()&bit == 0 {
		return os.ErrPermission
	}
	return nil
}
