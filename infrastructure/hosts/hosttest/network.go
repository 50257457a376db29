package hosttest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

func (s *Simulated) ip(args []string) (string, int) {
	switch {
	case slices.Contains(args, "-batch"):
		return s.ipBatch()
	case slices.Contains(args, "route"):
		return s.ipRoutes()
	case args[0] == "link":
		s.Links = slices.DeleteFunc(s.Links, func(link string) bool { return link == args[2] && !s.Sticky[link] })
		return "", 0
	}
	described := []map[string]any{{"ifname": "lo"}}
	for _, link := range s.Links {
		described = append(described, map[string]any{"ifname": link})
	}
	text, err := json.Marshal(described)
	if err != nil {
		s.t.Error(err)
	}
	return string(text), 0
}

// ipRoutes prints the routes as iproute2 does.
func (s *Simulated) ipRoutes() (string, int) {
	described := []map[string]any{}
	for _, route := range s.Routes {
		words, of := strings.Fields(route), map[string]any{}
		if words[0] == "blackhole" {
			of["type"], words = words[0], words[1:]
		}
		of["dst"] = words[0]
		for i := 1; i < len(words); i += 2 {
			key, value := words[i], any(words[i+1])
			switch key {
			case "via":
				key = "gateway"
			case "metric":
				value = json.Number(words[i+1])
			}
			of[key] = value
		}
		described = append(described, of)
	}
	text, err := json.Marshal(described)
	if err != nil {
		s.t.Error(err)
	}
	return string(text), 0
}

// ipBatch deletes routes. It goes on after one that is not there.
func (s *Simulated) ipBatch() (string, int) {
	status := 0
	for line := range strings.Lines(s.stdin) {
		name, is := strings.CutPrefix(strings.TrimSpace(line), "route delete ")
		if !is || !slices.Contains(s.Routes, name) {
			status = 1
		}
		s.Routes = slices.DeleteFunc(s.Routes, func(route string) bool { return route == name && !s.Sticky[name] })
	}
	return "", status
}

// nft knows tables, by family and name, and their chains, with the table before the name. A rule of the chain POSTROUTING leads to each chain.
func (s *Simulated) nft(args []string) (string, int) {
	if args[0] == "--file" {
		return "", s.nftScript()
	}
	if args[0] == "delete" {
		name := args[2] + " " + args[3]
		if !slices.Contains(s.Tables, name) {
			return "", 1
		}
		s.Tables = slices.DeleteFunc(s.Tables, func(table string) bool { return table == name && !s.Sticky[name] })
		return "", 0
	}
	answer := []map[string]any{{"metainfo": map[string]any{"json_schema_version": 1}}}
	for _, table := range s.Tables {
		family, name, _ := strings.Cut(table, " ")
		answer = append(answer, map[string]any{"table": map[string]any{"family": family, "name": name, "handle": 1}})
	}
	if args[1] == "--terse" {
		answer = answer[:1]
		for _, chain := range s.chainsOf(args[4], args[5]) {
			answer = append(answer, map[string]any{"rule": map[string]any{
				"family": args[4], "table": args[5], "chain": "POSTROUTING", "handle": handleOf(chain), "expr": []any{map[string]any{"counter": nil}, map[string]any{"jump": map[string]any{"target": chain}}},
			}})
		}
	}
	if args[2] == "chains" {
		answer = answer[:1]
		for _, chain := range s.Chains {
			fields := strings.Fields(chain)
			answer = append(answer, map[string]any{"chain": map[string]any{"family": fields[0], "table": fields[1], "name": fields[2], "handle": 1}})
		}
	}
	text, err := json.Marshal(map[string]any{"nftables": answer})
	if err != nil {
		s.t.Error(err)
	}
	return string(text), 0
}

func (s *Simulated) chainsOf(family, table string) []string {
	var names []string
	for _, chain := range s.Chains {
		if fields := strings.Fields(chain); fields[0] == family && fields[1] == table {
			names = append(names, fields[2])
		}
	}
	return names
}

// handleOf is the handle of the rule that leads to a chain.
func handleOf(chain string) int { return 100 + len(chain) }

// nftScript removes chains that are flushed, and that no rule leads to any more.
func (s *Simulated) nftScript() int {
	lines := strings.Split(strings.TrimSpace(s.stdin), "\n")
	for _, line := range lines {
		name, is := strings.CutPrefix(line, "delete chain ")
		if !is {
			continue
		}
		fields := strings.Fields(name)
		rule := fmt.Sprintf("delete rule %s %s POSTROUTING handle %d", fields[0], fields[1], handleOf(fields[2]))
		if !slices.Contains(lines, rule) || !slices.Contains(lines, "flush chain "+name) || !slices.Contains(s.Chains, name) {
			return 1
		}
		s.Chains = slices.DeleteFunc(s.Chains, func(chain string) bool { return chain == name && !s.Sticky[name] })
	}
	return 0
}

// ofService matches the chains of a Service.
var ofService = regexp.MustCompile(`^ip nat KUBE-(SVC|SEP|EXT)-`)

// AddServices adds the rules and chains that kube-proxy has for as many Services, in its iptables mode by iptables-nft.
func (s *Simulated) AddServices(services int) {
	rules := &strings.Builder{}
	rules.WriteString("*nat\n:PREROUTING ACCEPT [0:0]\n")
	for i := range services {
		for _, kind := range []string{"SVC", "SEP", "EXT"} {
			fmt.Fprintf(rules, ":KUBE-%s-%016d - [0:0]\n", kind, i)
			s.Chains = append(s.Chains, fmt.Sprintf("ip nat KUBE-%s-%016d", kind, i))
		}
		for range 6 {
			fmt.Fprintf(rules, "-A KUBE-SVC-%016d -m comment --comment \"team/service-%d:https -> 10.244.1.7:8443\" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-%016d\n", i, i, i)
		}
	}
	s.iptables += rules.String() + "COMMIT\n"
}

func (s *Simulated) iptablesSave([]string) (string, int) { return s.iptables, 0 }

func (s *Simulated) iptablesRestore([]string) (string, int) {
	if !s.Sticky["iptables"] {
		s.iptables = ""
		s.Chains = slices.DeleteFunc(s.Chains, ofService.MatchString)
	}
	return "", 0
}
