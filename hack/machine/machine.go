// Package machine says whether this machine can run the lab. The lab itself installs the Debian
// packages that it needs.
package machine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const gibibyte = 1 << 30

// Needs is what the lab asks of a machine.
type Needs struct {
	// Memory is the least amount of memory that the machine has, in bytes.
	Memory uint64
	// Disk is the least amount of free space, in bytes, on the file system of each of Folders.
	Disk uint64
	// Folders are where the lab writes. A folder that is not there yet counts as its nearest parent.
	Folders []string
}

// LabNeeds is what the lab needs when nothing was built yet; cache is the folder that it keeps its
// binaries and images in.
func LabNeeds(cache string) Needs {
	return Needs{
		// A machine that is sold with 8 GiB reports a little less.
		Memory:  7 * gibibyte,
		Disk:    diskNeed(cache),
		Folders: []string{cache, "/var/lib", os.TempDir()},
	}
}

// diskNeed is smaller when the cache was filled before.
func diskNeed(cache string) uint64 {
	if entries, err := os.ReadDir(cache); err == nil && len(entries) > 0 {
		return 8 * gibibyte
	}
	return 28 * gibibyte
}

// Check returns everything that stands in the way and that a program cannot put right.
func (n Needs) Check() error {
	var errs []error
	if runtime.GOOS != "linux" {
		return fmt.Errorf("the lab needs Linux, this is %s; make quickstart KUBECONFIG=<file> uses an existing cluster instead", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		errs = append(errs, errors.New("the lab boots hosts and makes networks: run this as root (sudo make ...), or use an existing cluster with make quickstart KUBECONFIG=<file>"))
	}
	errs = append(errs, checkDebian("/etc/os-release"), n.checkMemory("/proc/meminfo"))
	for _, folder := range n.Folders {
		errs = append(errs, n.checkDisk(folder))
	}
	return errors.Join(errs...)
}

func checkDebian(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("find out which system this is: %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[key] = strings.Trim(value, `"'`)
		}
	}
	version, _ := strconv.Atoi(values["VERSION_ID"])
	if values["ID"] == "debian" && (version >= 12 || values["VERSION_ID"] == "") {
		return nil
	}
	return fmt.Errorf("the lab is tested on Debian 12 and installs what it needs by apt; this is %q: use a Debian 12 machine, "+
		"or an existing cluster with make quickstart KUBECONFIG=<file>", values["PRETTY_NAME"])
}

func (n Needs) checkMemory(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("find out how much memory there is: %w", err)
	}
	total, err := memoryTotal(data)
	if err != nil {
		return err
	}
	if total < n.Memory {
		return fmt.Errorf("the lab needs a machine with 8 GiB of memory, this one has %.1f GiB", float64(total)/gibibyte)
	}
	return nil
}

// memoryTotal reads MemTotal, in bytes, from the content of /proc/meminfo (proc_meminfo(5)).
func memoryTotal(meminfo []byte) (uint64, error) {
	scanner := bufio.NewScanner(bytes.NewReader(meminfo))
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kibibytes, err := strconv.ParseUint(fields[1], 10, 64)
			return kibibytes * 1024, err
		}
	}
	return 0, errors.New("find out how much memory there is: no MemTotal in /proc/meminfo")
}

func (n Needs) checkDisk(folder string) error {
	free, err := freeSpace(folder)
	if err != nil {
		return err
	}
	if free < n.Disk {
		return fmt.Errorf("%s has %.1f GiB free, the lab needs %.0f GiB there (KOK_CACHE moves the cache, KOK_LAB_STATE the lab's state)",
			folder, float64(free)/gibibyte, float64(n.Disk)/gibibyte)
	}
	return nil
}

// freeSpace is what is free on the file system of a folder, or of its nearest parent that is there, in bytes.
func freeSpace(folder string) (uint64, error) {
	var stat unix.Statfs_t
	for {
		err := unix.Statfs(folder, &stat)
		if err == nil {
			return stat.Bavail * uint64(stat.Bsize), nil
		}
		if !errors.Is(err, unix.ENOENT) || filepath.Dir(folder) == folder {
			return 0, fmt.Errorf("find out how much space %s has: %w", folder, err)
		}
		folder = filepath.Dir(folder)
	}
}
