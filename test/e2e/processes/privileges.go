package processes

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// errNoProcess is what reads give when the process ends in between.
const errNoProcess = syscall.ESRCH

// Privileges are what a process may do.
type Privileges struct {
	// User and Group are the effective ones.
	User, Group int
	// Capabilities is the bit mask of the effective ones, Bounding of those that it could ever get.
	Capabilities, Bounding uint64
	// NoNewPrivileges is true when no program that it starts may have more.
	NoNewPrivileges bool
	// Filters is the number of its seccomp filters; it inherits those of Parent, which started it.
	Filters, Parent int
}

// PrivilegesOf reads what a process may do.
func PrivilegesOf(pid int) (Privileges, error) {
	status, err := os.Open(file(pid, "status"))
	if err != nil {
		return Privileges{}, err
	}
	defer status.Close() //nolint:errcheck // only read
	fields := map[string]string{}
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		fields[name] = strings.TrimSpace(value)
	}
	if err := lines.Err(); err != nil {
		return Privileges{}, fmt.Errorf("read the status of process %d: %w", pid, err)
	}
	return parsePrivileges(fields)
}

// parsePrivileges reads the fields of /proc/<pid>/status; see proc_pid_status(5).
func parsePrivileges(fields map[string]string) (Privileges, error) {
	p := Privileges{NoNewPrivileges: fields["NoNewPrivs"] == "1"}
	for _, number := range []struct {
		name string
		into *int
	}{{"Uid", &p.User}, {"Gid", &p.Group}, {"Seccomp_filters", &p.Filters}, {"PPid", &p.Parent}} {
		// Uid and Gid: real, effective, saved, of the file system.
		values := strings.Fields(fields[number.name])
		if len(values) == 0 {
			return p, fmt.Errorf("the status of a process lacks %s", number.name)
		}
		var err error
		if *number.into, err = strconv.Atoi(values[min(1, len(values)-1)]); err != nil {
			return p, fmt.Errorf("the status of a process has %s %q: %w", number.name, fields[number.name], err)
		}
	}
	for _, mask := range []struct {
		name string
		into *uint64
	}{{"CapEff", &p.Capabilities}, {"CapBnd", &p.Bounding}} {
		var err error
		if *mask.into, err = strconv.ParseUint(fields[mask.name], 16, 64); err != nil {
			return p, fmt.Errorf("the status of a process has %s %q: %w", mask.name, fields[mask.name], err)
		}
	}
	return p, nil
}

// Has tells whether a path exists in the file system that the process sees.
func Has(pid int, path string) (bool, error) {
	_, err := os.Lstat(file(pid, "root", path))
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

// Mount is one mount in the file system that a process sees.
type Mount struct {
	Path     string
	ReadOnly bool
}

// Mounts are what is mounted in the file system that the process sees.
func Mounts(pid int) ([]Mount, error) {
	data, err := os.ReadFile(file(pid, "mountinfo"))
	if err != nil {
		return nil, err
	}
	return parseMounts(string(data)), nil
}

// parseMounts reads a table like /proc/<pid>/mountinfo; see proc_pid_mountinfo(5).
func parseMounts(table string) []Mount {
	var mounts []Mount
	for line := range strings.Lines(table) {
		// ID, parent, device, root, mount point, options, ...
		if fields := strings.Fields(line); len(fields) > 5 {
			mounts = append(mounts, Mount{Path: fields[4], ReadOnly: slices.Contains(strings.Split(fields[5], ","), "ro")})
		}
	}
	return mounts
}
