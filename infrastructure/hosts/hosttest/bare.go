package hosttest

import (
	"path"
	"slices"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// NewBare is a host that has only what a probe asks for. Its bootstrap data bring kok-software, which brings the rest.
func NewBare(t *testing.T) *Simulated {
	s := New(t)
	for _, file := range []string{"/usr/bin/ctr", "/usr/bin/containerd", ContainerdDir} {
		s.Remove(file)
	}
	delete(s.Units, onworker.ContainerdUnit)
	s.Images, s.containerd, s.bare, s.Bring = nil, "", true, (*Simulated).BringSoftware
	return s
}

// StateFile is where kok-software notes what it changed.
const StateFile = software.Dir + "state.json"

// softwareFiles are what kok-software puts on a bare host.
var softwareFiles = []string{
	StateFile, software.ResultFile, software.Dir + "containerd/0123/bin/containerd",
	"/usr/local/bin/containerd", "/usr/local/bin/ctr", "/etc/systemd/system/containerd.service", "/etc/containerd/config.toml", "/opt/cni/bin/bridge",
}

// BringSoftware does what kok-software does when it installs.
func (s *Simulated) BringSoftware() {
	s.Files[software.Program] = "program"
	for _, file := range softwareFiles {
		s.Files[file] = "{}"
	}
	s.StartNewContainerd()
}

// StartNewContainerd starts a containerd that has never run on the host.
func (s *Simulated) StartNewContainerd() {
	s.Units[onworker.ContainerdUnit] = &hosts.UnitState{Loaded: true, Active: "active", Enabled: true}
	s.Files[ContainerdMetadata], s.Files["/run/containerd/containerd.sock"], s.Files["/opt/containerd/lib/a"] = "images", "", ""
}

// kokSoftware undoes what BringSoftware did. It fails while its program is sticky.
func (s *Simulated) kokSoftware(args []string) (string, int) {
	if !slices.Equal(args, []string{"remove"}) {
		s.t.Errorf("kok-software knows no %q", args)
	}
	if kubelet := s.Units[onworker.KubeletUnit]; len(s.Tasks) > 0 || kubelet != nil && kubelet.Runs() {
		s.t.Errorf("kubelet's programs go while it runs, or containers do: %+v, %q", kubelet, s.Tasks)
	}
	if s.Sticky[software.Program] {
		return "", 1
	}
	for _, file := range softwareFiles {
		s.Remove(file)
	}
	s.Remove(path.Clean(software.Dir))
	delete(s.Units, onworker.ContainerdUnit)
	s.containerd = ""
	return "", 0
}

// BringDownloads does what software.downloads of a KOKConfig do.
func (s *Simulated) BringDownloads() {
	s.Files["/usr/local/bin/containerd"], s.Files["/usr/local/bin/ctr"], s.Files["/etc/systemd/system/containerd.service"] = "theirs", "theirs", "theirs"
	s.StartNewContainerd()
}

// DownloadsWritten are the files, as entries of write_files, that bootstrap data with BringDownloads write.
const DownloadsWritten = `- path: /etc/systemd/system/containerd.service
- path: ` + onworker.DownloadsFile + `
  content: '["/usr/local/bin/containerd", "/usr/local/bin/ctr"]'
`

// BringPackage does what a package of containerd does.
func (s *Simulated) BringPackage() {
	s.Files["/usr/bin/containerd"], s.Files["/usr/bin/ctr"], s.Files["/etc/containerd/config.toml"] = "packaged", "packaged", "packaged"
	s.StartNewContainerd()
}
