// Package host makes real hosts on one machine: each is a booted systemd in its own namespaces and cgroups, with its
// own disk, on a network of two sites whose link can be cut. Everything it makes lies under one state directory or
// carries the network's prefix in its name, and only processes that it started are ever ended.
package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Sites of the lab.
const (
	SiteCloud = "cloud"
	SiteIDC   = "idc"
)

// worker begins the names of machines in the data centre that are no nodes of the host cluster.
const worker = "worker"

// groups of hosts, by the beginning of their names: the site that they stand in, and how far their numbers are moved in
// addresses.
var groups = []struct {
	name, site string
	offset     int
}{{SiteCloud, SiteCloud, 0}, {SiteIDC, SiteIDC, 0}, {worker, SiteIDC, 100}}

// Host is one machine of the lab.
type Host struct {
	// Name is <group>-<number>, such as idc-2 or worker-1.
	Name string `json:"name"`
	// Site is the network that the host stands in.
	Site string `json:"site"`
	// Address is the host's address in its site.
	Address netip.Addr `json:"address"`
	// PodCIDR holds the addresses of the host's pods; the router sends it to Address. A worker has none: its pods'
	// network is its own cluster's.
	PodCIDR netip.Prefix `json:"podCIDR"`
	// BaseRoot is the root file system that the host's own disk is laid over.
	BaseRoot string `json:"baseRoot"`
	// System is what a bare host runs, such as debian-13: one without a container runtime and a kubelet. It is empty for others.
	System string `json:"system,omitempty"`
	// Owner is the program that added the host for itself alone, and removes it again; empty for a host that anybody may use.
	Owner string `json:"owner,omitempty"`

	network Network
	// directory of the host in the state directory
	directory string
}

// New names a host of the network; nothing is made. The name gives site and number.
func New(network Network, stateDirectory, name string) (*Host, error) {
	kind, number, ok := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > 99 || strconv.Itoa(n) != number {
		return nil, badName(name)
	}
	for _, group := range groups {
		if group.name != kind {
			continue
		}
		h := &Host{
			Name: name, Site: group.site, Address: hostAddress(network.site(group.site), group.offset+n),
			network: network, directory: filepath.Join(stateDirectory, "hosts", name),
		}
		if !h.Worker() {
			h.PodCIDR = podRange(network, group.site, n)
		}
		return h, nil
	}
	return nil, badName(name)
}

func badName(name string) error {
	return fmt.Errorf("host name %q: want %s-<n>, %s-<n> or %s-<n> with n from 1 to 99", name, SiteCloud, SiteIDC, worker)
}

// Worker tells whether the host is a machine that is no node of the host cluster: a tenant may take it.
func (h *Host) Worker() bool { return strings.HasPrefix(h.Name, worker+"-") }

// podRange is that of a node: numbers 1-99 are for the cloud's hosts, 101-199 for the data centre's.
func podRange(network Network, site string, n int) netip.Prefix {
	if site == SiteIDC {
		n += 100
	}
	pods := network.Pods.Addr().As4()
	pods[2] = byte(n)
	return netip.PrefixFrom(netip.AddrFrom4(pods), 24)
}

// hostAddress is the site's address .10+n.
func hostAddress(site netip.Prefix, n int) netip.Addr {
	a := site.Addr().As4()
	a[3] = byte(10 + n)
	return netip.AddrFrom4(a)
}

// Load reads a host that Create made; the error is fs.ErrNotExist when there is none.
func Load(network Network, stateDirectory, name string) (*Host, error) {
	h, err := New(network, stateDirectory, name)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(h.path("host.json"))
	if err != nil {
		return nil, fmt.Errorf("read host %s: %w", name, err)
	}
	if err := json.Unmarshal(data, h); err != nil {
		return nil, fmt.Errorf("read host %s: %w", name, err)
	}
	return h, nil
}

// List gives the hosts that exist in the state directory: the cloud's first, workers last, each by number.
func List(network Network, stateDirectory string) ([]*Host, error) {
	entries, err := os.ReadDir(filepath.Join(stateDirectory, "hosts"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := sets.New[string]()
	for _, e := range entries {
		names.Insert(e.Name())
	}
	var hosts []*Host
	for _, group := range groups {
		for n := 1; n <= 99; n++ {
			name := fmt.Sprintf("%s-%d", group.name, n)
			if !names.Has(name) {
				continue
			}
			h, err := Load(network, stateDirectory, name)
			if errors.Is(err, fs.ErrNotExist) {
				continue // its creation was interrupted before it was recorded
			}
			if err != nil {
				return nil, err
			}
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// Remnants gives every host that the state directory has anything of, also those whose creation was interrupted: what
// there is to remove.
func Remnants(network Network, stateDirectory string) ([]*Host, error) {
	entries, err := os.ReadDir(filepath.Join(stateDirectory, "hosts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var hosts []*Host
	for _, e := range entries {
		h, err := New(network, stateDirectory, e.Name())
		if err != nil {
			return nil, fmt.Errorf("unexpected %s in %s: %w", e.Name(), stateDirectory, err)
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// path is a file of the host in the state directory.
func (h *Host) path(parts ...string) string {
	return filepath.Join(append([]string{h.directory}, parts...)...)
}

// InNetwork runs f on a thread that stands in the host's network: a socket that f itself opens dials from there, or
// listens there. The host need not have power.
func (h *Host) InNetwork(f func() error) error { return inNamespace(h.namespace(), f) }

// namespace is the name of the host's network namespace.
func (h *Host) namespace() string { return h.network.name(h.Name) }

// save records the host, whole or not at all.
func (h *Host) save() error { return writeJSON(h.path("host.json"), h) }

// writeJSON replaces a file by the value, whole or not at all.
func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
