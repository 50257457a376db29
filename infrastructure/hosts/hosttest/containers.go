package hosttest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

const (
	// ContainerdDir is containerd's folder.
	ContainerdDir = "/var/lib/containerd"
	// ContainerdMetadata is in it once containerd has run.
	ContainerdMetadata = ContainerdDir + "/io.containerd.metadata.v1.bolt/meta.db"
	// tasksDir has a folder for each container that runs.
	tasksDir = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
)

// readByContainerd matches the program, its settings and its unit.
var readByContainerd = regexp.MustCompile(`^/etc/containerd/|/containerd\.service\.d/|^/etc/systemd/system/containerd\.service$|^/etc/kok/proxy\.env$|/containerd$`)

// containerdSettings are the settings that containerd reads when it starts.
func (s *Simulated) containerdSettings() string {
	settings := maps.Clone(s.Files)
	maps.DeleteFunc(settings, func(file, _ string) bool {
		return !readByContainerd.MatchString(file) || strings.HasPrefix(file, records.Dir)
	})
	return fmt.Sprint(settings)
}

func (s *Simulated) ctr(args []string) (string, int) {
	if !s.hasProgram("ctr") {
		return "", 127
	}
	if state := s.Units[onworker.ContainerdUnit]; state == nil || !state.Runs() {
		return "", 1
	}
	switch strings.Join(args[2:4], " ") {
	case "images list":
		return strings.Join(s.Images, "\n"), 0
	case "images remove":
		s.Images = slices.DeleteFunc(s.Images, func(image string) bool { return slices.Contains(args[5:], image) && !s.Sticky[image] })
	case "containers list":
		return strings.Join(s.Tasks, "\n"), 0
	case "tasks delete":
		s.Tasks = nil
	}
	return "", 0
}
