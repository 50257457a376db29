package probe

import (
	"errors"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// FuzzAnswers: whatever a host answers a probe, what becomes of it fits into the status of an IDCHost, as the schema bounds it.
func FuzzAnswers(f *testing.F) {
	const stat = "/ 1000000 4096 1000000 2000000\n/var/lib 1 1 1 1\n"
	for _, seed := range [][4]string{
		{"x86_64\n", "PRETTY_NAME=\"Debian GNU/Linux 12\"\n", "MemTotal: 8032000 kB\n", stat},
		{strings.Repeat("x", 300), "PRETTY_NAME=" + strings.Repeat("y", 300), "MemTotal: -1 kB", stat},
		{"\xff\x00\x1b[31m", "PRETTY_NAME='\xff'", "MemTotal: 99999999999999999999 kB", "/ 18446744073709551615 2 1 1\n"},
		{"", "", "", "/ 1000000 4096 1000000 2000000\n" + strings.Repeat("a", 5000) + " 0 0 0 0\n"}, {"", "", "", "/ 1000000 4096 1000000 2000000\n" + strings.Repeat("a", 5000)},
		{"", "", "", ""}, {"a", "PRETTY_NAME", "MemTotal", "/ a"},
		{`[{"ifname":"eth0","addr_info":[{"local":"10.0.0.1","scope":"global"}]}]`, "", "", stat},
	} {
		for _, variant := range []uint8{0, 1, 2, 3, 16} {
			f.Add(seed[0], seed[1], seed[2], seed[3], variant)
		}
	}
	f.Fuzz(func(t *testing.T, name, system, memory, stat string, status uint8) {
		host := &hosttest.Liar{
			Status: int(status) / 16, Paths: []string{onworker.Kubeconfig}, Programs: []string{"/usr/bin/cloud-init", "/usr/bin/nft", "/usr/bin/kubelet", "/usr/bin/" + name},
			Answers: map[string]string{
				"uname": name, "nproc": memory, "cat /etc/os-release": system, "cat /proc/meminfo": memory, "stat": stat, "ip": name, "grep": system, "systemctl": system, "cat /proc/uptime": memory,
			},
		}
		if status&1 > 0 {
			host.Programs = append(host.Programs, "/usr/bin/ip")
		}
		if status&2 > 0 {
			host.Programs = append(host.Programs, "/usr/bin/systemctl")
			host.Paths = append(host.Paths, "/run/systemd/system", "/var/lib/kubelet/pods")
		}
		facts, problem, err := Run(t.Context(), hosts.New(host, "root"))
		var failed *hosts.CommandError
		if err != nil && errors.As(err, &failed) && !hosttest.TellableTo(failed.Error(), 4096) {
			t.Errorf("the error cannot be told: %.200q", err)
		}
		if problem != nil && !hosttest.TellableTo(problem.Message, 4096) {
			t.Errorf("the problem cannot be told: %.200q", problem.Message)
		}
		if facts == nil {
			return
		}
		for field, text := range map[string]string{"architecture": facts.Architecture, "kernelVersion": facts.KernelVersion, "osImage": facts.OSImage, "server": facts.Server} {
			if longest := map[bool]int{true: 64, false: 256}[field == "architecture"]; !hosttest.TellableTo(text, longest) {
				t.Errorf("%s does not fit into the status: %d bytes, %.200q", field, len(text), text)
			}
		}
		if facts.CPUs < 0 || facts.Memory < 0 || len(facts.Programs) > 16 {
			t.Errorf("%d processors, %d bytes, programs %q", facts.CPUs, facts.Memory, facts.Programs)
		}
	})
}
