package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// liar is a host that answers a program with whatever it likes.
type liar struct {
	// answers are those by the first argument, or by the first and the last.
	answers map[string]string
	// programs and paths are those that find finds.
	programs, paths []string
	status          int
	written         []byte
}

func (l *liar) Run(_ context.Context, command ssh.Command) (ssh.Result, error) {
	args := command.Args
	if args[0] == "dd" {
		l.written = command.Stdin
	}
	if args[0] == "find" {
		return l.find(args), nil
	}
	answer, ok := l.answers[args[0]+" "+args[len(args)-1]]
	if !ok {
		answer = l.answers[args[0]]
	}
	return ssh.Result{Stdout: []byte(answer), Stderr: []byte(answer), ExitStatus: l.status}, nil
}

// find answers for programs, and for paths; the root folder is always there.
func (l *liar) find(args []string) ssh.Result {
	found := l.programs
	if args[1] != "-L" {
		found = []string{"/"}
		for _, asked := range args[2:] {
			if slices.Contains(l.paths, asked) {
				found = append(found, asked)
			}
		}
	}
	return ssh.Result{Stdout: []byte(strings.Join(found, "\x00") + "\x00")}
}

// FuzzRecords: what a host says of its machine is the same when it is written there again.
func FuzzRecords(f *testing.F) {
	for _, seed := range []string{
		`{"namespace":"team","name":"a","instanceID":"1","dataHash":"0a","seeded":true,"images":["a"],"keys":{"/root/.ssh/authorized_keys":["AAAA"]},"takenOver":"a kubelet runs"}`,
		`{}`, `null`, `[]`, ``, `{"images":null}`, `{"images":[]}`, `{"name":1}`, "{\"name\":\"\xff\"}", `{"NAME":"a","name":"b"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host := &liar{paths: []string{recordFile}, answers: map[string]string{"cat": text}}
		record, err := New(host, "root").readRecord(t.Context())
		if err != nil {
			return
		}
		if record == nil {
			t.Fatal("a record that is there is none")
		}
		if err := New(host, "root").writeRecord(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		again := &liar{paths: []string{recordFile}, answers: map[string]string{"cat": string(host.written)}}
		read, err := New(again, "root").readRecord(t.Context())
		if diff := cmp.Diff(record, read, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("written again it is another: %v\n%s", err, diff)
		}
		if message := (&InUseError{Record: record}).Error(); !tellableTo(message, 4096) {
			t.Errorf("the message cannot be told: %d bytes, %.200q", len(message), message)
		}
	})
}

// tellableTo reports whether a text fits into a field of status of that many characters.
func tellableTo(text string, length int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= length && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' })
}

// FuzzAnswers: whatever a host answers a probe, what becomes of it fits into the status of an IDCHost, as the schema bounds it.
func FuzzAnswers(f *testing.F) {
	const stat = "/ 1000000 4096 1000000 2000000\n/var/lib 1 1 1 1\n"
	for _, seed := range [][4]string{
		{"x86_64\n", "PRETTY_NAME=\"Debian GNU/Linux 12\"\n", "MemTotal: 8032000 kB\n", stat},
		{strings.Repeat("x", 300), "PRETTY_NAME=" + strings.Repeat("y", 300), "MemTotal: -1 kB", stat},
		{"\xff\x00\x1b[31m", "PRETTY_NAME='\xff'", "MemTotal: 99999999999999999999 kB", "/ 18446744073709551615 2 1 1\n"},
		{"", "", "", ""}, {"a", "PRETTY_NAME", "MemTotal", "/ a"},
		{`[{"ifname":"eth0","addr_info":[{"local":"10.0.0.1","scope":"global"}]}]`, "", "", stat},
	} {
		for _, variant := range []uint8{0, 1, 2, 3, 16} {
			f.Add(seed[0], seed[1], seed[2], seed[3], variant)
		}
	}
	f.Fuzz(func(t *testing.T, name, system, memory, stat string, status uint8) {
		host := &liar{
			status: int(status) / 16, paths: []string{kubeconfigFile}, programs: []string{"/usr/bin/cloud-init", "/usr/bin/nft", "/usr/bin/kubelet", "/usr/bin/" + name},
			answers: map[string]string{
				"uname": name, "nproc": memory, "cat /etc/os-release": system, "cat /proc/meminfo": memory, "stat": stat, "ip": name, "grep": system, "systemctl": system, "cat /proc/uptime": memory,
			},
		}
		if status&1 > 0 {
			host.programs = append(host.programs, "/usr/bin/ip")
		}
		if status&2 > 0 {
			host.programs = append(host.programs, "/usr/bin/systemctl")
			host.paths = append(host.paths, bootedDir, podsDir)
		}
		facts, problem, err := New(host, "root").Probe(t.Context())
		var failed *CommandError
		if err != nil && errors.As(err, &failed) && !tellableTo(failed.Error(), 4096) {
			t.Errorf("the error cannot be told: %.200q", err)
		}
		if problem != nil && !tellableTo(problem.Message, 4096) {
			t.Errorf("the problem cannot be told: %.200q", problem.Message)
		}
		if facts == nil {
			return
		}
		for field, text := range map[string]string{"architecture": facts.Architecture, "kernelVersion": facts.KernelVersion, "osImage": facts.OSImage, "server": facts.Server} {
			if longest := map[bool]int{true: 64, false: 256}[field == "architecture"]; !tellableTo(text, longest) {
				t.Errorf("%s does not fit into the status: %d bytes, %.200q", field, len(text), text)
			}
		}
		if facts.CPUs < 0 || facts.Memory < 0 || len(facts.Programs) > 16 {
			t.Errorf("%d processors, %d bytes, programs %q", facts.CPUs, facts.Memory, facts.Programs)
		}
	})
}

// FuzzMountsAndUnits: mount points that are unmounted are in the folders that were asked for, and nowhere else.
func FuzzMountsAndUnits(f *testing.F) {
	for _, seed := range []string{
		"36 35 98:0 / /var/lib/kubelet/pods/a rw - ext3 /dev/root rw", `1 1 1 / /var/lib/kubelet/a\040b rw`, `1 1 1 / /var/lib/kubelet/..\057..\057etc rw`, `1 1 1 / /var/lib/kubelet/\`, "", "a b c d",
		"LoadState=loaded\nActiveState=active\nNRestarts=1\nExecMainStartTimestampMonotonic=1000000\n\nLoadState=not-found\n", "NRestarts=99999999999999999999\n\n\n\n", "ExecMainStartTimestampMonotonic=9223372036854775807",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, point := range parseMounts(text, nodePaths) {
			if !slices.ContainsFunc(nodePaths, func(folder string) bool { return point == folder || strings.HasPrefix(point, folder+"/") }) ||
				slices.Contains(strings.Split(point, "/"), "..") {
				t.Errorf("%q would be unmounted", point)
			}
		}
		if units := parseUnits(text); len(units) != strings.Count(strings.TrimSpace(text), "\n\n")+1 && !strings.Contains(text, "\n\n\n") {
			t.Errorf("%d units", len(units))
		}
	})
}

// FuzzResults: what kok-software left on a host is told in bounded lines, and told again it is the same.
func FuzzResults(f *testing.F) {
	for _, seed := range []string{
		`{"reason":"SoftwareNotAvailable","component":"containerd","message":"no server gave it","avoided":["https://a.example: 404","b","c","d","e","f","g"]}`,
		`{"reason":"","message":"a"}`, `{"reason":"a\nb","message":"\u0000\u001b[31m"}`, `{}`, ``, `null`, `[]`, `{"avoided":{}}`, fmt.Sprintf(`{"reason":"a","message":%q}`, strings.Repeat("é", 2000)),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if problem := problemIn(content); problem != nil {
			for text, length := range map[string]int{string(problem.Reason): maxComponent, problem.Component: maxComponent, problem.Message: maxLine} {
				if !tellableTo(text, length+len("...")) || strings.Contains(text, "\n") {
					t.Errorf("it is told as %d bytes, %.200q", len(text), text)
				}
			}
		}
		told := avoidedIn(content)
		if len(told) > maxAvoided+1 || slices.ContainsFunc(told, func(text string) bool { return !tellableTo(text, maxLine+len("...")) }) {
			t.Errorf("it avoided %q", told)
		}
	})
}
