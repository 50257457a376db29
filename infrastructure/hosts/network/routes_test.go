package network

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
)

func TestOnlyRoutesOfTheMachineGo(t *testing.T) {
	ranges := []string{"10.244.0.0/16", "fd00:10:244::1/56"}
	for name, test := range map[string]struct {
		listed string
		record records.Record
		want   string
	}{
		"to another node's pods":        {`{"dst":"10.244.2.0/24","gateway":"192.0.2.8","dev":"eth0","flags":[]}`, records.Record{PodRanges: ranges}, "10.244.2.0/24 via 192.0.2.8 dev eth0"},
		"of IPv6":                       {`{"dst":"fd00:10:244:2::/64","gateway":"2001:db8::8","dev":"eth0","metric":1024,"pref":"medium"}`, records.Record{PodRanges: ranges}, "fd00:10:244:2::/64 metric 1024 via 2001:db8::8 dev eth0"},
		"over a gateway of IPv6":        {`{"dst":"10.244.2.0/24","via":{"family":"inet6","host":"2001:db8::8"},"dev":"eth0"}`, records.Record{PodRanges: ranges}, "10.244.2.0/24 via inet6 2001:db8::8 dev eth0"},
		"over many gateways":            {`{"dst":"10.244.2.0/24","flags":[],"nexthops":[{"gateway":"192.0.2.8","dev":"eth0"},{"via":{"family":"inet6","host":"2001:db8::9"},"dev":"eth0"}]}`, records.Record{PodRanges: ranges}, "10.244.2.0/24 nexthop via 192.0.2.8 dev eth0 nexthop via inet6 2001:db8::9 dev eth0"},
		"over others than before":       {`{"dst":"10.244.2.0/24","nexthops":[{"gateway":"192.0.2.8","dev":"eth0"},{"gateway":"192.0.2.9","dev":"eth0"}]}`, records.Record{PodRanges: ranges, Routes: []string{"10.244.2.0/24 nexthop via 192.0.2.1 dev eth0 nexthop via 192.0.2.9 dev eth0"}}, "10.244.2.0/24 nexthop via 192.0.2.8 dev eth0 nexthop via 192.0.2.9 dev eth0"},
		"by a next hop":                 {`{"dst":"10.244.2.0/24","nhid":7,"gateway":"192.0.2.8","dev":"eth0"}`, records.Record{PodRanges: ranges}, "10.244.2.0/24 nhid 7"},
		"by another one than before":    {`{"dst":"10.244.2.0/24","nhid":7,"gateway":"192.0.2.8","dev":"eth0"}`, records.Record{PodRanges: ranges, Routes: []string{"10.244.2.0/24 via 192.0.2.8 dev eth0"}}, ""},
		"for a type of service":         {`{"dst":"10.244.2.0/24","tos":"0x10","gateway":"192.0.2.8","dev":"eth0"}`, records.Record{PodRanges: ranges}, "10.244.2.0/24 tos 0x10 via 192.0.2.8 dev eth0"},
		"in other packets":              {`{"dst":"10.244.2.0/24","encap":"ip","dst":"10.0.0.1","tos":0,"tos":"0x10","gateway":"192.0.2.8","dev":"eth0"}`, records.Record{PodRanges: ranges}, "10.244.2.0/24 tos 0x10 via 192.0.2.8 dev eth0"},
		"in another table":              {`{"dst":"10.244.2.0/24","gateway":"192.0.2.8","dev":"eth0","table":"100"}`, records.Record{PodRanges: ranges}, "10.244.2.0/24 table 100 via 192.0.2.8 dev eth0"},
		"to one pod":                    {`{"dst":"10.244.1.7","dev":"cali0123","scope":"link"}`, records.Record{PodRanges: ranges}, "10.244.1.7 dev cali0123"},
		"to all pods":                   {`{"dst":"10.244.0.0/16","gateway":"192.0.2.8","dev":"eth0"}`, records.Record{PodRanges: ranges}, "10.244.0.0/16 via 192.0.2.8 dev eth0"},
		"of Cilium":                     {`{"dst":"10.244.2.0/24","gateway":"192.0.2.8","dev":"eth0","protocol":"kernel"}`, records.Record{PodRanges: ranges}, "10.244.2.0/24 via 192.0.2.8 dev eth0"},
		"of Calico's block":             {`{"type":"blackhole","dst":"10.244.1.0/26","protocol":"80","flags":[]}`, records.Record{PodRanges: ranges}, "blackhole 10.244.1.0/26"},
		"other gateway than before":     {`{"dst":"10.244.2.0/24","gateway":"192.0.2.8","dev":"eth0"}`, records.Record{PodRanges: ranges, Routes: []string{"10.244.2.0/24 via 192.0.2.1 dev eth0"}}, "10.244.2.0/24 via 192.0.2.8 dev eth0"},
		"that was there before":         {`{"dst":"10.244.2.0/24","gateway":"192.0.2.8","dev":"eth0","protocol":"static"}`, records.Record{PodRanges: ranges, Routes: []string{"10.244.2.0/24 via 192.0.2.8 dev eth0"}}, ""},
		"without a Record of ranges":    {`{"dst":"10.244.2.0/24","gateway":"192.0.2.8","dev":"eth0"}`, records.Record{}, ""},
		"to more than pods":             {`{"dst":"10.0.0.0/8","gateway":"192.0.2.1","dev":"eth0"}`, records.Record{PodRanges: ranges}, ""},
		"to others":                     {`{"dst":"10.245.0.0/24","gateway":"192.0.2.1","dev":"eth0"}`, records.Record{PodRanges: ranges}, ""},
		"to everywhere":                 {`{"dst":"default","gateway":"192.0.2.1","dev":"eth0"}`, records.Record{PodRanges: []string{"0.0.0.0/0"}}, ""},
		"of the host's own address":     {`{"dst":"10.244.7.0/24","dev":"eth0","protocol":"kernel","scope":"link"}`, records.Record{PodRanges: ranges}, ""},
		"that a DHCP server gave":       {`{"dst":"10.244.7.0/24","gateway":"192.0.2.1","dev":"eth0","protocol":"dhcp"}`, records.Record{PodRanges: ranges}, ""},
		"in the kernel's own table":     {`{"type":"local","dst":"10.244.1.1","dev":"cni0","table":"local","protocol":"kernel"}`, records.Record{PodRanges: ranges}, ""},
		"with words that are not its":   {`{"dst":"10.244.2.0/24","dev":"a\nroute flush table main"}`, records.Record{PodRanges: ranges}, "10.244.2.0/24 dev a route flush table main"},
		"to nothing that is an address": {`{"dst":"10.244.2.0/24 table main"}`, records.Record{PodRanges: ranges}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			host := &hosttest.Liar{Answers: map[string]string{"ip all": "[" + test.listed + "]"}}
			var got strings.Builder
			err := routes(t.Context(), hosts.New(host, "root"), &test.record, func(r *route) error { got.WriteString(r.deletion()); return nil })
			want := ""
			if test.want != "" {
				want = "route delete " + test.want + "\n"
			}
			if err != nil || got.String() != want {
				t.Errorf("%q, %v", got.String(), err)
			}
		})
	}
}

func TestRoutesThatAreThereBeforeAreNoted(t *testing.T) {
	var many []string
	for i := range maxNoted {
		many = append(many, fmt.Sprintf(`{"dst":"10.244.%d.%d","gateway":"192.0.2.1","dev":"eth0"}`, i/256, i%256))
	}
	for name, test := range map[string]struct {
		listed, ranges []string
		want           int
		fails          bool
	}{
		"as many as fit":                {listed: many, ranges: []string{"10.244.0.0/16"}, want: maxNoted},
		"more":                          {listed: append(slices.Clip(many), `{"dst":"10.244.255.0/24","dev":"eth0"}`), ranges: []string{"10.244.0.0/16"}, want: maxNoted + 1, fails: true},
		"a range that is none":          {listed: many, ranges: []string{"10.244.0.0"}, fails: true},
		"a cluster that tells no range": {listed: many},
	} {
		t.Run(name, func(t *testing.T) {
			record := &records.Record{PodRanges: test.ranges}
			host := &hosttest.Liar{Answers: map[string]string{"ip all": "[" + strings.Join(test.listed, ",") + "]"}}
			if err := NoteRoutes(t.Context(), hosts.New(host, "root"), record); (err != nil) != test.fails || len(record.Routes) != test.want {
				t.Errorf("%d routes, %v", len(record.Routes), err)
			}
		})
	}
}

func TestAMessageNamesFewRoutesAndShortly(t *testing.T) {
	long := `{"dst":"10.244.2.0/24","dev":"` + strings.Repeat("a.", 1<<12) + `"}`
	host := &hosttest.Liar{Answers: map[string]string{"ip all": "[" + long + strings.Repeat(","+long, maxNamed) + "]"}}
	left, err := RoutesLeft(t.Context(), hosts.New(host, "root"), &records.Record{PodRanges: []string{"10.244.0.0/16"}})
	if err != nil || len(left) != maxNamed || len(left[0]) > hosts.MaxLine || !strings.HasPrefix(left[0], "route 10.244.2.0/24 dev a.a") {
		t.Errorf("%d routes, the first is %.100q, %v", len(left), left, err)
	}
}
