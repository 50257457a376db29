package network

import (
	"context"
	"encoding/json"
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
	Destination field  `json:"dst"`
	// TOS is the type of service of the packets that it is for; empty for a route for all.
	TOS field `json:"tos"`
	hop
	Table    string `json:"table"`
	Metric   uint32 `json:"metric"`
	Protocol string `json:"protocol"`
	// NextHops are those of a route that has several.
	NextHops []hop `json:"nexthops"`
	// NextHopID is the ID of an object that has the next hops.
	NextHopID uint32 `json:"nhid"`
}

// hop is a next hop of a route.
type hop struct {
	Gateway string `json:"gateway"`
	// Via is a gateway of the other family.
	Via *struct {
		Family string `json:"family"`
		Host   string `json:"host"`
	} `json:"via"`
	Device string `json:"dev"`
}

// field is the first text that ip prints under a name. For a route with an encapsulation it prints fields of the outer packet under the
// same names.
type field string

// UnmarshalJSON leaves out a number, which is a field of the outer packet, and all after the first text.
func (f *field) UnmarshalJSON(data []byte) error {
	if *f != "" || data[0] != '"' {
		return nil
	}
	return json.Unmarshal(data, (*string)(f))
}

// routeTypes are the types of routes that a network makes. All others are the kernel's own.
var routeTypes = []string{"", "blackhole", "unreachable", "prohibit", "throw"}

// String names a route in the words of ip-route(8), so that no other has the same name.
func (r *route) String() string {
	hops := r.words()
	for _, one := range r.NextHops {
		hops = append(append(hops, "nexthop"), one.words()...)
	}
	return r.named(hops)
}

// deletion is a line with which ip deletes the route, and no other.
func (r *route) deletion() string {
	name := r.String()
	if r.NextHopID != 0 { // The kernel finds it by nothing else. It is not in the name, because daemons of routing change it.
		name = r.named([]string{"nhid", strconv.FormatUint(uint64(r.NextHopID), 10)})
	}
	return "route delete " + name + "\n"
}

// named is the name with these next hops. ip takes them last.
func (r *route) named(hops []string) string {
	words := []string{r.Type, string(r.Destination)}
	if r.TOS != "" {
		words = append(words, "tos", string(r.TOS))
	}
	if r.Table != "" {
		words = append(words, "table", r.Table)
	}
	if r.Metric != 0 {
		words = append(words, "metric", strconv.FormatUint(uint64(r.Metric), 10))
	}
	return strings.Join(strings.Fields(strings.Join(append(words, hops...), " ")), " ")
}

func (h *hop) words() (words []string) {
	if h.Gateway != "" {
		words = append(words, "via", h.Gateway)
	} else if h.Via != nil {
		words = append(words, "via", h.Via.Family, h.Via.Host)
	}
	if h.Device != "" {
		words = append(words, "dev", h.Device)
	}
	return words
}

// isNodes reports whether a route leads to pods in these ranges and a network may have made it.
func (r *route) isNodes(ranges []netip.Prefix) bool {
	direct := r.Gateway == "" && r.Via == nil && len(r.NextHops) == 0 && r.NextHopID == 0
	switch {
	case !slices.Contains(routeTypes, r.Type), r.Protocol == "dhcp", r.Protocol == "ra":
		return false
	case r.Protocol == "kernel" && direct: // It is of an address of a device. Cilium's have the same protocol, and a gateway.
		return false
	}
	destination, err := netip.ParsePrefix(string(r.Destination))
	if err != nil { // A single address; or "default", which stays.
		address, err := netip.ParseAddr(string(r.Destination))
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
func routes(ctx context.Context, h *hosts.Host, record *records.Record, each func(*route) error) error {
	ranges, err := podRanges(record)
	if err != nil || len(ranges) == 0 {
		return err
	}
	return h.RunReading(ctx, func(listed *hosts.Output) error {
		return hosts.Elements(listed, "", func(r route) error {
			if !r.isNodes(ranges) || slices.Contains(record.Routes, r.String()) {
				return nil
			}
			return each(&r)
		})
	}, "ip", "-json", "route", "show", "table", "all")
}

// maxNoted is how many routes are noted: the Record must stay short.
const maxNoted = 1000

// NoteRoutes records which routes to pods of the machine's cluster are there already. They are the host's own.
func NoteRoutes(ctx context.Context, h *hosts.Host, record *records.Record) error {
	var before []string
	var kept hosts.Kept
	err := routes(ctx, h, record, func(r *route) error {
		if len(before) > maxNoted {
			return nil
		}
		before = append(before, r.String())
		return kept.Add(before[len(before)-1])
	})
	if err == nil && len(before) > maxNoted {
		err = fmt.Errorf("the host has more than %d routes to addresses of the cluster's pods, such as %s; remove them, or give the Cluster other ranges of pods", maxNoted, hosts.Line(before[0], hosts.MaxLine))
	}
	record.Routes = before
	return err
}

// RemoveRoutes deletes the routes that the machine's network made to pods on other nodes. The next machine's pods may have the same
// addresses.
func RemoveRoutes(ctx context.Context, h *hosts.Host, record *records.Record) error {
	var kept hosts.Kept
	deletions := script{kept: &kept}
	err := routes(ctx, h, record, func(r *route) error { return deletions.add(r.deletion()) })
	if err != nil || deletions.Len() == 0 {
		return err
	}
	// One may be gone by now, with its device.
	return h.TryChangeBy(ctx, deletions.Bytes(), "ip", "-force", "-batch", "-")
}

// RoutesLeft names the routes of the machine that are still on the host.
func RoutesLeft(ctx context.Context, h *hosts.Host, record *records.Record) ([]string, error) {
	var left []string
	err := routes(ctx, h, record, func(r *route) error {
		if len(left) < maxNamed {
			left = append(left, hosts.Line("route "+r.String(), hosts.MaxLine))
		}
		return nil
	})
	return left, err
}
