//go:build root

package network_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/network"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// namespace runs commands in a network namespace of its own.
type namespace struct{ path string }

func newNamespace(t *testing.T) *namespace {
	holder := exec.CommandContext(t.Context(), "sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	return &namespace{fmt.Sprintf("--net=/proc/%d/ns/net", holder.Process.Pid)}
}

func (n *namespace) Run(ctx context.Context, command ssh.Command) (ssh.Result, error) {
	var stdout, stderr bytes.Buffer
	process := exec.CommandContext(ctx, "nsenter", append([]string{n.path, "--"}, command.Args...)...)
	process.Stdin, process.Stdout, process.Stderr = bytes.NewReader(command.Stdin), &stdout, &stderr
	err := process.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return ssh.Result{}, err
	}
	result := ssh.Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitStatus: process.ProcessState.ExitCode()}
	if command.Read != nil && err == nil {
		return result, command.Read(&stdout)
	}
	return result, nil
}

// A host's own set in a table of iptables-nft is one element of the list, of more than an element may have.
func TestANodesChainsGoFromATableWithALargeSet(t *testing.T) {
	h := hosts.New(newNamespace(t), "root")
	members := &strings.Builder{}
	for i := range 70000 {
		fmt.Fprintf(members, "10.1.%d.%d:%d, ", i>>8&255, i&255, 1+i>>16)
	}
	ruleset := "table ip filter {\nset own {\ntype ipv4_addr . inet_service\nelements = {" + strings.ReplaceAll(strings.TrimSuffix(members.String(), ", "), ":", " . ") + "}\n}\n" +
		"chain KUBE-FORWARD {\naccept\n}\nchain INPUT {\ntype filter hook input priority 0\nip saddr . tcp dport @own accept\njump KUBE-FORWARD\n}\n}\n"
	if _, err := h.Feed(t.Context(), []byte(ruleset), "nft", "--file", "-"); err != nil {
		t.Fatal(err)
	}
	if err := network.RemoveRules(t.Context(), h, nil); err != nil {
		t.Fatal(err)
	}
	left, err := h.Run(t.Context(), "nft", "--terse", "list", "ruleset")
	if err != nil || strings.Contains(string(left), "KUBE") || !strings.Contains(string(left), "@own accept") {
		t.Errorf("%v, %s", err, left)
	}
}

// What ip prints and takes, by ip itself.
func TestTheRoutesOfAMachineGoFromARealKernel(t *testing.T) {
	inside := newNamespace(t)
	h := hosts.New(inside, "root")
	change := func(lines ...string) {
		t.Helper()
		if _, err := h.Feed(t.Context(), []byte(strings.Join(lines, "\n")+"\n"), "ip", "-batch", "-"); err != nil {
			t.Fatal(err)
		}
	}
	all := func() string {
		t.Helper()
		var listed []byte
		for _, family := range []string{"-4", "-6"} {
			more, err := h.Run(t.Context(), "ip", family, "-oneline", "route", "show", "table", "all")
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, more...)
		}
		return string(listed)
	}
	change(
		"link add eth0 type veth peer name eth1", "link set eth1 up", "address add 192.0.2.7/24 dev eth0", "address add 2001:db8::7/64 dev eth0 nodad", "link set eth0 up",
		"route add 10.0.0.0/8 via 192.0.2.1", "route add 10.244.99.0/24 via 192.0.2.1", "route add blackhole fd00:10:244:99::/64",
		// ip finds these first by their destinations alone.
		"nexthop add id 7 via 192.0.2.1 dev eth0", "route add 10.244.5.0/24 nexthop via 192.0.2.1 nexthop via 192.0.2.9", "route add 10.244.7.0/24 via 192.0.2.1",
		"nexthop add id 8 via 192.0.2.8 dev eth0", "route add 10.244.8.0/24 nhid 7",
	)
	before := all()
	record := &records.Record{PodRanges: []string{"10.244.0.0/16", "fd00:10:244::/56"}}
	if err := network.NoteRoutes(t.Context(), h, record); err != nil || len(record.Routes) != 5 {
		t.Fatalf("%q, %v", record.Routes, err)
	}
	made := []string{
		"10.244.2.0/24 via 192.0.2.8", "10.244.3.0/24 via 192.0.2.9 dev eth0 onlink table 100 proto 80", "10.244.4.0/24 via 192.0.2.9 proto kernel", "blackhole 10.244.1.0/26 proto 80",
		"10.244.1.5 dev eth0", "10.244.6.0/24 via inet6 2001:db8::8 dev eth0", "10.244.2.0/24 via 192.0.2.9 metric 50",
		"fd00:10:244:2::/64 via 2001:db8::8", "blackhole fd00:10:244:3::/64", "fd00:10:244:4::/64 nexthop via 2001:db8::8 nexthop via 2001:db8::9",
		"10.244.5.0/24 nexthop via 192.0.2.8 nexthop via 192.0.2.9 weight 3", "10.244.6.0/24 metric 7 table 100 nexthop via inet6 2001:db8::8 dev eth0 nexthop dev eth0",
		"10.244.7.0/24 nhid 8", "10.244.8.0/24 nhid 8", "10.244.7.0/24 tos 0x10 via 192.0.2.8", "unreachable 10.244.7.0/24 tos 0x04", "10.244.9.0/24 encap ip id 100 dst 10.0.0.1 via 192.0.2.8 dev eth0",
	}
	for _, route := range made {
		change("route append " + route)
	}
	if left, err := network.RoutesLeft(t.Context(), h, record); err != nil || len(left) != len(made) || !slices.Contains(left, "route 10.244.2.0/24 via 192.0.2.8 dev eth0") {
		t.Errorf("there are %q, %v", left, err)
	}
	for range 2 {
		if err := network.RemoveRoutes(t.Context(), h, record); err != nil {
			t.Fatal(err)
		}
		if left, err := network.RoutesLeft(t.Context(), h, record); err != nil || len(left) > 0 {
			t.Errorf("there still are %q, %v", left, err)
		}
		if after := all(); after != before {
			t.Errorf("before there were\n%s\nand after it\n%s", before, after)
		}
	}
}
