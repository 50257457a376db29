package host

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
)

// Leftovers lists what there is on the machine of a network and its hosts but for the state directory itself: mounts,
// cgroups and the processes in them, network namespaces, links of the machine, and systemd-nspawn's records.
func Leftovers(n Network, stateDirectory string) ([]string, error) {
	var left []string
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(mounts) {
		f := strings.Fields(string(line))
		if len(f) > 1 && (strings.HasPrefix(f[1], stateDirectory+"/") || strings.HasPrefix(f[1], namespaces+"/"+n.name(""))) {
			left = append(left, "mount "+f[1])
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, n.name("")) {
			left = append(left, "link "+l.Attrs().Name)
		}
	}
	for _, pattern := range []string{namespaces + "/" + n.name("*"), "/run/systemd/nspawn/*/" + n.name("*")} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		left = append(left, paths...)
	}
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !strings.HasPrefix(d.Name(), n.name("lab-")) {
			return ignoreVanished(err)
		}
		entry := "cgroup " + path
		if data, err := os.ReadFile(filepath.Join(path, "cgroup.procs")); err == nil && len(bytes.Fields(data)) > 0 {
			entry += fmt.Sprintf(" with processes %s", bytes.Join(bytes.Fields(data), []byte(" ")))
		}
		left = append(left, entry)
		return fs.SkipDir
	})
	return left, err
}

// ignoreVanished: cgroups come and go while they are listed.
func ignoreVanished(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
