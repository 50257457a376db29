package host

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/isolation"
)

// controlGroup is a host's subtree in one cgroup hierarchy. Two kubelets in one subtree would end each other's pods.
type controlGroup struct {
	Path string `json:"path"`
	// Unified tells cgroup v2 from v1.
	Unified bool `json:"unified,omitempty"`
}

// controlGroupsFor names the subtree of a host in every hierarchy of the machine: below the caller's own cgroup where
// hierarchies are v1, at the top of the tree where there is only v2 (whose cgroups cannot hold both processes and subtrees).
func controlGroupsFor(name string) ([]controlGroup, error) {
	own, err := ownControlGroups()
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var groups []controlGroup
	for line := range bytes.Lines(mounts) {
		left, right, ok := strings.Cut(strings.TrimSpace(string(line)), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 || (r[0] != "cgroup" && r[0] != "cgroup2") {
			continue
		}
		root, mountPoint := l[3], l[4]
		path, found := "", false
		if r[0] == "cgroup2" {
			path, found = own[""]
		} else {
			for _, option := range strings.Split(r[2], ",") {
				if path, found = own[option]; found {
					break
				}
			}
		}
		if !found {
			continue
		}
		if mountPoint == "/sys/fs/cgroup" {
			path = root
		}
		below, err := filepath.Rel(root, path)
		if err != nil || strings.HasPrefix(below, "..") {
			return nil, fmt.Errorf("cgroup %s of this process is not below %s, which is mounted at %s", path, root, mountPoint)
		}
		groups = append(groups, controlGroup{Path: filepath.Join(mountPoint, below, name), Unified: r[0] == "cgroup2"})
	}
	if len(groups) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted at /sys/fs/cgroup: the lab's hosts need one")
	}
	return groups, nil
}

// ownControlGroups maps each v1 controller, and "" for v2, to the cgroup of this process.
func ownControlGroups() (map[string]string, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for scanner.Scan() {
		parts := strings.SplitN(scanner.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, controller := range strings.Split(parts[1], ",") {
			own[controller] = parts[2]
		}
	}
	return own, scanner.Err()
}

// makeControlGroups makes the subtree's top in every hierarchy.
func makeControlGroups(groups []controlGroup) error {
	for _, g := range groups {
		if err := os.Mkdir(g.Path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make cgroup %s: %w", g.Path, err)
		}
		if err := inheritSets(g.Path); err != nil {
			return err
		}
		if err := delegateControllers(g); err != nil {
			return err
		}
	}
	return nil
}

// delegateControllers lets a subtree of the only hierarchy use what the machine's top cgroup has. Beside v1
// hierarchies there is nothing to delegate.
func delegateControllers(g controlGroup) error {
	top := filepath.Dir(g.Path)
	if !g.Unified || top != "/sys/fs/cgroup" {
		return nil
	}
	available, err := os.ReadFile(filepath.Join(top, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(available)) {
		if err := os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			return fmt.Errorf("delegate cgroup controller %s: %w", controller, err)
		}
	}
	return nil
}

// inheritSets gives a v1 cpuset its parent's processors and memory nodes, without which nothing may run in it.
func inheritSets(path string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(path, file))
		if errors.Is(err, fs.ErrNotExist) || len(bytes.TrimSpace(value)) > 0 {
			continue
		}
		if err != nil {
			return err
		}
		if value, err = os.ReadFile(filepath.Join(filepath.Dir(path), file)); err != nil {
			return err
		}
		if len(bytes.TrimSpace(value)) == 0 {
			continue // cgroup v2: empty means all
		}
		if err := os.WriteFile(filepath.Join(path, file), value, 0); err != nil {
			return fmt.Errorf("set %s of %s: %w", file, path, err)
		}
	}
	clone := filepath.Join(path, "cgroup.clone_children")
	if _, err := os.Stat(clone); err == nil && strings.Contains(path, "cpuset") {
		return os.WriteFile(clone, []byte("1"), 0)
	}
	return nil
}

// startIn starts a command in the cgroups. The thread that forks enters them first: a child begins where its parent is.
func startIn(groups []controlGroup, cmd *exec.Cmd) error {
	return isolation.OnThread(func() error {
		for _, g := range groups {
			if g.Unified {
				directory, err := os.Open(g.Path)
				if err != nil {
					return err
				}
				defer directory.Close() //nolint:errcheck // only a descriptor
				if cmd.SysProcAttr == nil {
					cmd.SysProcAttr = &syscall.SysProcAttr{}
				}
				cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(directory.Fd())
				continue
			}
			if err := os.WriteFile(filepath.Join(g.Path, "tasks"), []byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
				return fmt.Errorf("enter cgroup %s: %w", g.Path, err)
			}
		}
		return cmd.Start()
	})
}

// killControlGroups ends every process in the subtrees: only what the lab started can be there.
func killControlGroups(groups []controlGroup) error {
	var errs []error
	for _, g := range groups {
		for _, directory := range subtree(g.Path) {
			data, err := os.ReadFile(filepath.Join(directory, "cgroup.procs"))
			if err != nil {
				continue // removed meanwhile
			}
			for _, field := range strings.Fields(string(data)) {
				pid, err := strconv.Atoi(field)
				if err != nil || pid <= 1 || pid == os.Getpid() {
					continue
				}
				if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
					errs = append(errs, fmt.Errorf("end process %d of cgroup %s: %w", pid, g.Path, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// removeControlGroups removes the subtrees, deepest first; dying processes may hold them for a moment.
func removeControlGroups(ctx context.Context, groups []controlGroup) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		last = nil
		for _, g := range groups {
			directories := subtree(g.Path)
			slices.Reverse(directories)
			for _, directory := range directories {
				if err := unix.Rmdir(directory); err != nil && !errors.Is(err, unix.ENOENT) {
					last = fmt.Errorf("remove cgroup %s: %w", directory, err)
				}
			}
		}
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// subtree lists a directory and those below it, parents first.
func subtree(path string) []string {
	var directories []string
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			directories = append(directories, p)
		}
		return nil
	})
	return directories
}
