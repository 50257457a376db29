package floor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

var programs = []string{"nsenter", "etcd", names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler}

// Clean ends what a floor that was killed left running, and removes its files from the hosts.
func Clean(hosts []*host.Host) error {
	if err := endLeftovers(); err != nil {
		return err
	}
	var errs []error
	for _, h := range hosts {
		if err := os.RemoveAll(h.DiskPath(directory)); err != nil {
			errs = append(errs, fmt.Errorf("remove the floor's files from %s: %w", h.Name, err))
		}
	}
	return errors.Join(errs...)
}

// endLeftovers kills the processes whose arguments name the floor's directory: nobody else has a reason to.
func endLeftovers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var found []int
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		var err error
		if found, err = leftovers(); err != nil || len(found) == 0 {
			return true, err
		}
		for _, pid := range found {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return false, fmt.Errorf("end process %d of an earlier floor: %w", pid, err)
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("end an earlier floor, processes %v: %w", found, err)
	}
	return nil
}

func leftovers() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		arguments, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err == nil && isOurs(arguments) {
			found = append(found, pid)
		}
	}
	return found, nil
}

// isOurs tells a process of a floor, or the program that entered the host for it, by its arguments, which end with
// zeros.
func isOurs(arguments []byte) bool {
	program, _, _ := bytes.Cut(arguments, []byte{0})
	return slices.Contains(programs, filepath.Base(string(program))) && bytes.Contains(arguments, []byte(directory+"/"+cluster+"-"))
}
