package ownership

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Usage has what shows whether a host is in use. It is the same each time while nothing on the host changes.
type Usage struct {
	// Record is the host's; nil when it carries no machine of any inventory.
	Record *records.Record
	// Kubelets are the units that run a kubelet, in the order of KubeletUnits.
	Kubelets []string
	// Kubeconfig is true when onworker.Kubeconfig exists. Server is the API server in it; empty when none can be read.
	Kubeconfig bool
	Server     string
	// Software is true when kok-software has installed something for a machine that this inventory does not know. A
	// clean-up would remove it.
	Software bool
	// Addresses are those at which other hosts reach it, without those of pods, containers and Services.
	Addresses []netip.Addr
}

// softwareState exists while kok-software has installed anything on a host.
const softwareState = software.Dir + "state.json"

// KubeletUnits are units that run a kubelet: kubelet's own unit, and those of k3s, RKE2, k0s and MicroK8s, whose programs
// contain a kubelet.
var KubeletUnits = []string{
	onworker.KubeletUnit, "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service",
	"k0scontroller.service", "k0sworker.service", "snap.microk8s.daemon-kubelite.service",
}

const (
	// podsDir is made by kubelet as soon as it has accepted its settings.
	podsDir = "/var/lib/kubelet/pods"
	// steady is how long a restarted kubelet has to run before it counts as running. Without settings kubelet ends sooner.
	steady = 30 * time.Second
)

// bootedDir exists while systemd runs (sd_booted(3)).
const bootedDir = "/run/systemd/system"

// Observe reads what shows whether the host is in use, and changes nothing on it. Without systemd or ip their facts are
// missing; the probe reports such a host as unfit anyway.
func Observe(ctx context.Context, h *hosts.Host, programs []string) (*Usage, error) {
	record, err := records.Read(ctx, h)
	if err != nil {
		return nil, err
	}
	found := &Usage{Record: record}
	there, err := h.Existing(ctx, onworker.Kubeconfig, podsDir, bootedDir, softwareState)
	if err != nil {
		return nil, err
	}
	found.Software = slices.Contains(there, softwareState)
	if found.Kubeconfig = slices.Contains(there, onworker.Kubeconfig); found.Kubeconfig {
		// Read one line only: the file holds credentials.
		line, err := h.Excerpt(ctx, "grep", "--only-matching", "--max-count=1", "--extended-regexp", `server"?: *["']?https?://[^"' ]+`, onworker.Kubeconfig)
		if err != nil {
			return nil, err
		}
		found.Server = serverIn(line)
	}
	if slices.Contains(programs, "systemctl") && slices.Contains(there, bootedDir) {
		if found.Kubelets, err = kubelets(ctx, h, slices.Contains(there, podsDir)); err != nil {
			return nil, err
		}
	}
	if slices.Contains(programs, "ip") {
		if found.Addresses, err = addresses(ctx, h); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// kubelets are those of KubeletUnits that run.
func kubelets(ctx context.Context, h *hosts.Host, hadPods bool) ([]string, error) {
	states, err := h.Units(ctx, KubeletUnits...)
	if err != nil {
		return nil, err
	}
	var running []string
	for i, name := range KubeletUnits {
		var uptime time.Duration
		if states[i].Runs() && states[i].Restarts > 0 && !hadPods {
			if uptime, err = sinceBoot(ctx, h); err != nil {
				return nil, err
			}
		}
		if runsKubelet(states[i], hadPods, uptime) {
			running = append(running, name)
		}
	}
	return running, nil
}

// runsKubelet reports whether a unit runs a kubelet with settings. systemd restarts a kubelet without settings again and
// again, and it ends before it makes podsDir.
func runsKubelet(unit hosts.UnitState, hadPods bool, uptime time.Duration) bool {
	switch {
	case !unit.Runs():
		return false
	case hadPods:
		return true
	case unit.Sub == "auto-restart":
		return false
	default:
		return unit.Restarts == 0 || uptime-unit.Started >= steady
	}
}

// sinceBoot is the time since boot, by the clock that systemd uses.
func sinceBoot(ctx context.Context, h *hosts.Host) (time.Duration, error) {
	output, err := h.Run(ctx, "cat", "/proc/uptime")
	if err != nil {
		return 0, err
	}
	text, _, _ := strings.Cut(string(output), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("read /proc/uptime of the host, %q: %w", hosts.Tidy(text), err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// serverName is the name or IPv4 address of an API server.
var serverName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// serverIn returns the API server in a line of a kubeconfig, without user, password and path; empty when no kubelet could
// reach it. The line comes from the host and may be anything.
func serverIn(line []byte) string {
	first, _, _ := strings.Cut(string(line), "\n")
	_, after, found := strings.Cut(first, "http")
	server, err := url.Parse("http" + after)
	if !found || err != nil {
		return ""
	}
	name, port := server.Hostname(), server.Port()
	if port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return ""
		}
		port = ":" + port
	}
	if address, err := netip.ParseAddr(name); err == nil && address.Is6() && address.Zone() == "" {
		name = "[" + address.String() + "]"
	} else if name = strings.ToLower(name); !serverName.MatchString(name) {
		return ""
	}
	return server.Scheme + "://" + name + port
}
