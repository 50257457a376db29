package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
)

// route is a route as ip-route(8) prints it in JSON.
type route struct {
	// Type is empty for a unicast route, Table for the table main.
	Type        string `json:"type"`
	Destination string `json:"dst"`
	Gateway     string `json:"gateway"`
	// Via is a gateway of the other family.
	Via *struct {
		Family string `json:"family"`
		Host   string `json:"host"`
	} `json:"via"`
	Device   string `json:"dev"`
	Table    string `json:"table"`
	Metric   uint32 `json:"metric"`
	Protocol string `json:"protocol"`
	// NextHop is the ID of an object with the gateway. The kernel then finds no route by its gateway or device.
	NextHop uint32 `json:"nhid"`
}

// routeTypes are the types of routes that a network makes. All others are the kernel's own.
var routeTypes = []string{"", "blackhole", "unreachable", "prohibit", "throw"}

// String is how ip-route(8) tells the route from others.
func (r *route) String() string {
	words := []string{r.Type, r.Destination}
	if r.NextHop == 0 {
		if r.Gateway != "" {
			words = append(words, "via", r.Gateway)
		} else if r.Via != nil {
			words = append(words, "via", r.Via.Family, r.Via.Host)
		}
		if r.Device != "" {
			words = append(words, "dev", r.Device)
		}
	}
	if r.Table != "" {
		words = append(words, "table", r.Table)
	}
	if r.Metric != 0 {
		words = append(words, "metric", strconv.FormatUint(uint64(r.Metric), 10))
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// isNodes reports whether a route leads to pods in these ranges and a network may have made it.
func (r *route) isNodes(ranges []netip.Prefix) bool {
	direct := r.Gateway == "" && r.Via == nil
	switch {
	case !slices.Contains(routeTypes, r.Type), r.Protocol == "dhcp", r.Protocol == "ra":
		return false
	case r.Protocol == "kernel" && direct && r.NextHop == 0: // It is of an address of a device. Cilium's have the same protocol, and a gateway.
		return false
	}
	destination, err := netip.ParsePrefix(r.Destination)
	if err != nil { // A single address; or "default", which stays.
		address, err := netip.ParseAddr(r.Destination)
		if err != nil {
			return false
		}
		destination = netip.PrefixFrom(address, address.BitLen())
	}
	return slices.ContainsFunc(ranges, func(pods netip.Prefix) bool {
		return pods.Bits() <= destination.Bits() && pods.Contains(destination.Addr())
	})
}

// podRanges are the ranges of a machine's cluster.
func podRanges(record *records.Record) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range record.PodRanges {
		pods, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no range of pods: %w", hosts.Line(text, hosts.MaxLine), err)
		}
		ranges = append(ranges, pods.Masked())
	}
	return ranges, nil
}

// routes reads the routes that a machine brought: they lead to pods of its cluster, and the host did not have them before. It reads
// none when the record has no ranges of pods.
func routes(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	ranges, err := podRanges(record)
	if err != nil || len(ranges) == 0 {
		return nil, err
	}
	var found []string
	var kept hosts.Kept
	err = h.RunReading(ctx, func(listed *hosts.Output) error {
		return hosts.Elements(listed, "", func(r route) error {
			name := r.String()
			if !r.isNodes(ranges) || slices.Contains(record.Routes, name) {
				return nil
			}
			found = append(found, name)
			return kept.Add(name)
		})
	}, "ip", "-json", "route", "show", "table", "all")
	return found, err
}

// maxNoted is how many routes are noted: the Record must stay short.
const maxNoted = 1000

// NoteRoutes records which routes to pods of the machine's cluster are there already. They are the host's own.
func NoteRoutes(ctx context.Context, h *hosts.Host, record *records.Record) error {
	before, err := routes(ctx, h, record)
	if err == nil && len(before) > maxNoted {
		err = fmt.Errorf("the host has more than %d routes to addresses of the cluster's pods, such as %s; remove them, or give the Cluster other ranges of pods", maxNoted, hosts.Line(before[0], hosts.MaxLine))
	}
	record.Routes = before
	return err
}

// RemoveRoutes removes what a network left to lead to the pods of other nodes. The next machine's pods may have the same addresses.
func RemoveRoutes(ctx context.Context, h *hosts.Host, record *records.Record) error {
	found, err := routes(ctx, h, record)
	if err != nil || len(found) == 0 {
		return err
	}
	// One may be gone by now, with its device.
	return h.TryChangeBy(ctx, []byte("route delete "+strings.Join(found, "\nroute delete ")+"\n"), "ip", "-force", "-batch", "-")
}

// RoutesLeft names the routes of the machine that are still on the host.
func RoutesLeft(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	found, err := routes(ctx, h, record)
	return hosts.Named("route", found[:min(len(found), maxNamed)]), err
}
