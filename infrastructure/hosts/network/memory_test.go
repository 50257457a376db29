package network

import (
	"context"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// talkative is a host of which one command prints the same again and again.
type talkative struct {
	command, begin, again, end string
	// live is what the manager has in memory when the command ends, in bytes.
	live int64
}

// Run lists nothing in all other commands.
func (h *talkative) Run(_ context.Context, command ssh.Command) (ssh.Result, error) {
	args := strings.Join(command.Args, " ")
	switch {
	case args == h.command:
		text := strings.Repeat(h.again, (64<<10)/len(h.again))
		again := &repeated{text: text, times: (18 << 20) / len(text)}
		return ssh.Result{}, command.Read(io.MultiReader(strings.NewReader(h.begin), again, strings.NewReader(h.end), h))
	case strings.HasPrefix(args, "nft --json"):
		return ssh.Result{}, command.Read(strings.NewReader(`{"nftables": [{"chain": {"family": "ip", "table": "filter", "name": "KUBE-FORWARD"}}]}`))
	case command.Read != nil:
		return ssh.Result{}, command.Read(strings.NewReader(""))
	}
	return ssh.Result{}, nil
}

// Read is the end of what the command prints.
func (h *talkative) Read([]byte) (int, error) {
	h.live = live()
	return 0, io.EOF
}

// repeated is the same text again and again.
type repeated struct {
	text, rest string
	times      int
}

func (r *repeated) Read(data []byte) (int, error) {
	if r.rest == "" && r.times > 0 {
		r.rest, r.times = r.text, r.times-1
	}
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(data, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func live() int64 {
	runtime.GC()
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

const (
	tableListed = "nft --json list table ip filter"
	object      = `{"nftables": [{"metainfo": {}}`
	tooMuch     = "what a machine left there needs more than 16777216 bytes; restart the host, which ends it"
	tooLong     = "one of its elements has more than 1048576 bytes"
)

// A host may lie, and several are cleaned at once.
func TestAHostCannotFillTheMemoryOfTheManager(t *testing.T) {
	name := strings.Repeat("A", 24)
	for what, test := range map[string]struct {
		host talkative
		want string
	}{
		"rules of the host's own":            {talkative{command: "iptables-save", begin: "*filter\n", again: "-A INPUT -p tcp -j ACCEPT\n", end: "COMMIT\n"}, ""},
		"chains of a node":                   {talkative{command: "iptables-save", begin: "*filter\n", again: ":KUBE-SEP-" + name + " - [0:0]\n", end: "COMMIT\n"}, tooMuch},
		"rules that lead to a node's":        {talkative{command: "iptables-save", begin: "*filter\n", again: "-A INPUT -j KUBE-" + name + "\n", end: "COMMIT\n"}, tooMuch},
		"a line that does not end":           {talkative{command: "iptables-save", again: name}, "token too long"},
		"tables of the host's own in nft":    {talkative{command: "nft --json list tables", begin: object, again: `,{"table": {"family": "inet", "name": "` + name + `"}}`, end: "]}"}, ""},
		"tables of a node in nft":            {talkative{command: "nft --json list tables", begin: object, again: `,{"table": {"family": "` + name + `", "name": "calico"}}`, end: "]}"}, ""},
		"chains of the host's own in nft":    {talkative{command: "nft --json list chains", begin: object, again: `,{"chain": {"family": "ip", "table": "filter", "name": "` + name + `"}}`, end: "]}"}, ""},
		"chains of a node in nft":            {talkative{command: "nft --json list chains", begin: object, again: `,{"chain": {"family": "ip", "table": "filter", "name": "KUBE-` + name + `"}}`, end: "]}"}, tooMuch},
		"rules of the host's own in nft":     {talkative{command: tableListed, begin: object, again: `,{"rule": {"family": "ip", "table": "filter", "chain": "INPUT", "handle": 7, "expr": [{"jump": {"target": "` + name + `"}}]}}`, end: "]}"}, ""},
		"a name that does not end in nft":    {talkative{command: tableListed, begin: object + `,{"rule": {"family": "`, again: name, end: `"}}]}`}, tooLong},
		"a list that nothing separates":      {talkative{command: tableListed, begin: object, again: " "}, tooLong},
		"rules that lead to a node's in nft": {talkative{command: tableListed, begin: object, again: `,{"rule": {"family": "ip", "table": "filter", "chain": "` + name + name + `", "handle": 7, "expr": [{"jump": {"target": "KUBE-A"}}]}}`, end: "]}"}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			before := live()
			err := RemoveRules(t.Context(), hosts.New(&test.host, "root"), []string{"iptables-save"})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%.300v, want %q", err, test.want)
			}
			if kept := test.host.live - before; kept > 18<<20 {
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
