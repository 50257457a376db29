package hosttest

import (
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

func (s *Simulated) systemctl(args []string) (string, int) {
	last := args[len(args)-1]
	switch args[0] {
	case "show":
		text := ""
		for _, name := range operands(args) {
			if strings.Contains(name, "@.") { // A template is no unit.
				return text, 1
			}
			state := s.Units[name]
			if state == nil {
				state = &hosts.UnitState{Active: "inactive"}
			}
			text += fmt.Sprintf("LoadState=%s\nActiveState=%s\nSubState=%s\nUnitFileState=%s\nNRestarts=%d\nExecMainStartTimestampMonotonic=%d\n\n",
				map[bool]string{true: "loaded", false: "not-found"}[state.Loaded], state.Active, state.Sub,
				map[bool]string{true: "enabled"}[state.Enabled], state.Restarts, state.Started.Microseconds())
		}
		return text, 0
	case "start", "restart":
		if s.Units[last] == nil {
			return "", 5
		}
		if last == onworker.ContainerdUnit {
			s.Units[last].Active, s.containerd = "active", s.containerdSettings()
		}
		if last == cloudinit.Unit && !s.Units[last].Runs() { // It remains active after its end.
			for _, file := range []string{cloudinit.SeedDir + "/user-data", cloudinit.SeedDir + "/meta-data", cloudinit.ConfigFile, onworker.KubeletEnvironment, cloudinit.UnitFile} {
				if s.Files[file] == "" {
					s.t.Errorf("cloud-init starts without %s", file)
				}
			}
			s.Starts++
			s.runCloudInit()
		}
	case "stop":
		for name, state := range s.Units {
			if matches, err := path.Match(last, name); err == nil && matches && !s.Sticky[name] {
				state.Active = "inactive"
			}
		}
		s.forgetContainerd()
	case "disable":
		for name, state := range s.Units {
			if name == last || strings.HasPrefix(name, strings.TrimSuffix(last, ".service")) && strings.Contains(last, "@.") {
				state.Enabled = false
			}
		}
	case "daemon-reload":
		for name := range maps.Clone(s.Units) {
			template, _, isInstance := strings.Cut(name, "@")
			if !s.There(cloudinit.UnitFile) && name == cloudinit.Unit || name == "kubelet.service" && !s.There("/etc/systemd/system/kubelet.service") ||
				isInstance && !s.There("/etc/systemd/system/"+template+"@.service") {
				if !s.Units[name].Runs() {
					delete(s.Units, name)
				}
			}
		}
		s.forgetContainerd()
		if s.There(cloudinit.UnitFile) && s.Units[cloudinit.Unit] == nil {
			s.Units[cloudinit.Unit] = &hosts.UnitState{Loaded: true, Active: "inactive"}
		}
	}
	return "", 0
}

// forgetContainerd is what systemd does with a unit whose file is gone.
func (s *Simulated) forgetContainerd() {
	unit := s.Units[onworker.ContainerdUnit]
	if !s.bare || unit == nil || s.hasProgram("containerd") || s.There("/etc/systemd/system/containerd.service") {
		return
	}
	if unit.Loaded = false; !unit.Runs() {
		delete(s.Units, onworker.ContainerdUnit)
		s.containerd = ""
	}
}
