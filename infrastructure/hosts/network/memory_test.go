package network

import (
	"context"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// talkative is a host of which one command prints the same again and again. A # stands for a number that is another each time.
type talkative struct {
	command, begin, again, end string
	// prints is how many bytes again takes.
	prints  int
	printed *repeated
}

// Run lists nothing in all other commands.
func (h *talkative) Run(_ context.Context, command ssh.Command) (ssh.Result, error) {
	args := strings.Join(command.Args, " ")
	switch {
	case args == h.command:
		h.printed = &repeated{text: h.again, left: h.prints}
		return ssh.Result{}, command.Read(io.MultiReader(strings.NewReader(h.begin), h.printed, strings.NewReader(h.end)))
	case strings.HasPrefix(args, "nft --json"):
		return ssh.Result{}, command.Read(strings.NewReader(`{"nftables": [{"chain": {"family": "ip", "table": "filter", "name": "KUBE-FORWARD"}}]}`))
	case command.Read != nil:
		return ssh.Result{}, command.Read(strings.NewReader(""))
	}
	return ssh.Result{}, nil
}

// repeated is the same text again and again.
type repeated struct {
	text, rest string
	number     int
	// left is how many bytes are still to come, unmeasured how many came since live was measured.
	left, unmeasured int
	// live is the most that the manager had in memory, in bytes; 0 when nothing was read.
	live int64
}

func (r *repeated) Read(data []byte) (int, error) {
	if r.live == 0 || r.unmeasured >= 1<<20 || r.left <= 0 {
		r.live, r.unmeasured = max(r.live, live()), 0
	}
	if r.rest == "" && r.left > 0 {
		many := &strings.Builder{}
		for many.Len() < 64<<10 {
			r.number++
			many.WriteString(strings.ReplaceAll(r.text, "#", strconv.Itoa(r.number)))
		}
		r.rest = many.String()
		r.left -= len(r.rest)
	}
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(data, r.rest)
	r.rest = r.rest[n:]
	r.unmeasured += n
	return n, nil
}

func live() int64 {
	runtime.GC()
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

const (
	tableListed  = "nft --json --terse list table ip filter"
	routesListed = "ip -json route show table all"
	object       = `{"nftables": [{"metainfo": {}}`
	needed       = "more than 16777216 bytes of it are needed"
	tooMuch      = needed + "; restart the host, which ends what a machine left there"
	tooLong      = "one of its elements has more than 1048576 bytes"
)

// A host may lie, and several are cleaned at once.
func TestAHostCannotFillTheMemoryOfTheManager(t *testing.T) {
	const (
		little = 8 << 20 // An element of 1 MiB, with what it is decoded from.
		// A buffer may have room for twice of what is in it, and while it grows the former one is there, too.
		much = little + 3*hosts.MaxKept
	)
	name := strings.Repeat("A", 24)
	long := strings.Repeat("a.", 1<<18)
	removeRules := func(ctx context.Context, h *hosts.Host) error { return RemoveRules(ctx, h, []string{"iptables-save"}) }
	of := func(do func(context.Context, *hosts.Host, *records.Record) error) func(context.Context, *hosts.Host) error {
		return func(ctx context.Context, h *hosts.Host) error {
			return do(ctx, h, &records.Record{PodRanges: []string{"10.244.0.0/16"}})
		}
	}
	removeRoutes, noteRoutes := of(RemoveRoutes), of(NoteRoutes)
	routesLeft := of(func(ctx context.Context, h *hosts.Host, record *records.Record) error {
		_, err := RoutesLeft(ctx, h, record)
		return err
	})
	routesTo := func(destination, device string) talkative {
		route := `{"dst": "` + destination + `", "gateway": "192.0.2.8", "dev": "` + device + `#"}`
		return talkative{command: routesListed, begin: "[" + route, again: "," + route, end: "]"}
	}
	for what, test := range map[string]struct {
		host talkative
		do   func(context.Context, *hosts.Host) error
		want string
		most int
	}{
		"rules of the host's own":            {talkative{command: "iptables-save", begin: "*filter\n", again: "-A INPUT -p tcp -j ACCEPT\n", end: "COMMIT\n"}, removeRules, "", little},
		"chains of a node":                   {talkative{command: "iptables-save", begin: "*filter\n", again: ":KUBE-SEP-" + name + " - [0:0]\n", end: "COMMIT\n"}, removeRules, tooMuch, much},
		"chains of a node in many tables":    {talkative{command: "iptables-save", again: "*filter\n:KUBE-SEP-" + name + " - [0:0]\nCOMMIT\n"}, removeRules, tooMuch, much},
		"rules that lead to a node's":        {talkative{command: "iptables-save", begin: "*filter\n", again: "-A INPUT -j KUBE-" + name + "\n", end: "COMMIT\n"}, removeRules, tooMuch, much},
		"a line that does not end":           {talkative{command: "iptables-save", again: name}, removeRules, "token too long", little},
		"tables of the host's own in nft":    {talkative{command: "nft --json list tables", begin: object, again: `,{"table": {"family": "inet", "name": "` + name + `"}}`, end: "]}"}, removeRules, "", little},
		"tables of a node in nft":            {talkative{command: "nft --json list tables", begin: object, again: `,{"table": {"family": "inet", "name": "calico"}}`, end: "]}"}, removeRules, "", little},
		"families that nft does not have":    {talkative{command: "nft --json list tables", begin: object, again: `,{"table": {"family": "` + long + `#", "name": "calico"}}`, end: "]}"}, removeRules, `nftables has no family "a.a.`, little},
		"families of chains in nft":          {talkative{command: "nft --json list chains", begin: object, again: `,{"chain": {"family": "` + long + `#", "table": "filter", "name": "KUBE-A"}}`, end: "]}"}, removeRules, `nftables has no family "a.a.`, little},
		"chains of the host's own in nft":    {talkative{command: "nft --json list chains", begin: object, again: `,{"chain": {"family": "ip", "table": "filter", "name": "` + name + `"}}`, end: "]}"}, removeRules, "", little},
		"chains of a node in nft":            {talkative{command: "nft --json list chains", begin: object, again: `,{"chain": {"family": "ip", "table": "filter", "name": "KUBE-` + name + `"}}`, end: "]}"}, removeRules, tooMuch, much},
		"rules of the host's own in nft":     {talkative{command: tableListed, begin: object, again: `,{"rule": {"family": "ip", "table": "filter", "chain": "INPUT", "handle": 7, "expr": [{"jump": {"target": "` + name + `"}}]}}`, end: "]}"}, removeRules, "", little},
		"a name that does not end in nft":    {talkative{command: tableListed, begin: object + `,{"rule": {"family": "`, again: name, end: `"}}]}`}, removeRules, tooLong, little},
		"a list that nothing separates":      {talkative{command: tableListed, begin: object, again: " "}, removeRules, tooLong, little},
		"rules that lead to a node's in nft": {talkative{command: tableListed, begin: object, again: `,{"rule": {"family": "ip", "table": "filter", "chain": "` + name + name + `", "handle": 7, "expr": [{"jump": {"target": "KUBE-A"}}]}}`, end: "]}"}, removeRules, tooMuch, much},
		"routes of the host's own":           {routesTo("10.0.0.0/8", name), removeRoutes, "", little},
		"routes of a machine":                {routesTo("10.244.2.0/24", ""), removeRoutes, tooMuch, much},
		"routes that are too many to note":   {routesTo("10.244.2.0/24", ""), noteRoutes, "more than 1000 routes", little},
		"routes that are too long to note":   {routesTo("10.244.2.0/24", long), noteRoutes, needed, much},
		"routes that are too many to name":   {routesTo("10.244.2.0/24", long[:1<<14]), routesLeft, "", little},
	} {
		t.Run(what, func(t *testing.T) {
			before := live()
			test.host.prints = 2 * test.most
			err := test.do(t.Context(), hosts.New(&test.host, "root"))
			if test.want == "" && err != nil || test.want != "" && (err == nil || strings.Count(err.Error(), test.want) != 1 || len(err.Error()) > 3*hosts.MaxLine) {
				t.Errorf("%.3000v, want %q", err, test.want)
			}
			if test.host.printed == nil || test.host.printed.live == 0 {
				t.Fatal("nothing was measured")
			}
			if kept := test.host.printed.live - before; kept > int64(test.most) {
				t.Errorf("it kept %d bytes", kept)
			}
		})
	}
}

func TestANodeHasFewTables(t *testing.T) {
	var tables nftTables
	for i := range 2 * maxTables {
		for range 2 {
			if err := tables.add(nftEntry{Family: "ip", Name: strconv.Itoa(i)}); (err != nil) != (i >= maxTables) || len(tables) != min(i+1, maxTables) {
				t.Errorf("with %d tables: %v", i+1, err)
			}
		}
	}
}
