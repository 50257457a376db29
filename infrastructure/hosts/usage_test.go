package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// foreignKubeconfig is that of a node which kubeadm joined to a cluster.
const foreignKubeconfig = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: secret
    server: https://10.0.0.1:6443
  name: default-cluster
users:
- name: default-auth
  user:
    client-key-data: secret
`

// joined makes the host a node of somebody's cluster.
func (s *simulated) joined() {
	s.units[kubeletUnit] = &unitState{loaded: true, active: "active", sub: "running", enabled: true}
	s.files[kubeconfigFile] = foreignKubeconfig
	s.files[podsDir+"/1/etc-hosts"], s.files["/etc/cni/net.d/10-theirs.conflist"] = "", "theirs"
	s.files["/lib/systemd/system/kubelet.service"], s.files["/etc/systemd/system/kubelet.service"] = "theirs", "theirs"
	s.mounts = append(s.mounts, podsDir+"/1/volumes/a")
	s.tasks, s.links = []string{"89abcde"}, append(s.links, "cni0")
}

// installed is what a package of kubelet does: systemd starts it again and again, and it ends for want of settings.
func (s *simulated) installed(state unitState) {
	s.files["/usr/bin/kubelet"] = "packaged"
	s.units[kubeletUnit] = &state
}

const factOfJoined = "kubelet runs, and /etc/kubernetes/kubelet.conf leads to https://10.0.0.1:6443"

// aHostNode is a Node of the host cluster at an address that aNodesAddresses has.
func aHostNode() []Node {
	return []Node{{Name: "idc-1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}}
}

// Somebody's node would be joined to a tenant, and wiped when its machine goes.
func TestAHostOfOthersIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	running := unitState{loaded: true, active: "active", sub: "running"}
	for name, test := range map[string]struct {
		edit  func(*simulated)
		nodes []Node
		fact  string
	}{
		"one that kubeadm joined": {edit: (*simulated).joined, fact: factOfJoined},
		"one with a kubelet": {edit: func(s *simulated) { s.units[kubeletUnit] = &running },
			fact: "kubelet runs"},
		"one with a kubelet that was started anew": {edit: func(s *simulated) {
			s.installed(unitState{loaded: true, active: "active", sub: "running", restarts: 7, started: 90000 * time.Second})
		}, fact: "kubelet runs"},
		"one whose kubelet ends again and again": {edit: func(s *simulated) {
			s.joined()
			*s.units[kubeletUnit] = unitState{loaded: true, active: "activating", sub: "auto-restart", restarts: 7, started: 99999 * time.Second}
		}, fact: factOfJoined},
		"one whose kubelet is stopped": {edit: func(s *simulated) { s.joined(); s.units[kubeletUnit].active = "inactive" },
			fact: "/etc/kubernetes/kubelet.conf leads to https://10.0.0.1:6443"},
		"one of k3s": {edit: func(s *simulated) { s.units["k3s-agent.service"] = &running },
			fact: "k3s-agent runs"},
		"a node of the host cluster": {edit: func(s *simulated) {
			s.answers["ip -json address show scope global"] = ssh.Result{Stdout: []byte(aNodesAddresses)}
		}, nodes: aHostNode(), fact: "the host cluster's Node idc-1 has the address 192.0.2.7"},
		"a node of the host cluster with its kubelet": {edit: func(s *simulated) {
			s.joined()
			s.answers["ip -json address show scope global"] = ssh.Result{Stdout: []byte(aNodesAddresses)}
		}, nodes: aHostNode(), fact: "kubelet runs, /etc/kubernetes/kubelet.conf leads to https://10.0.0.1:6443, and the host cluster's Node idc-1 has the address 192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(t)
				test.edit(s)
				before := s.plain()
				h := New(s, "admin")
				machine := worker()
				machine.Nodes, machine.TakeOver = test.nodes, "another fact"
				for range 2 {
					_, err := h.Bootstrap(t.Context(), machine)
					var inUse *InUseError
					if !errors.As(err, &inUse) || inUse.Fact != test.fact || err.Error() != "the host is in use: "+test.fact {
						t.Errorf("it says %v", err)
					}
				}
				facts, problem, err := h.Probe(t.Context())
				if err != nil || problem != nil {
					t.Fatalf("%v, %v", problem, err)
				}
				if got := Judge(&facts.Usage, machine.claimant()); got != (Verdict{Use: OfOthers, Fact: test.fact}) {
					t.Errorf("a probe finds %+v", got)
				}
				if s.plain() != before {
					t.Error("it was changed")
				}
				for _, command := range s.ran {
					if !slices.Contains([]string{"true", "find", "cat", "grep", "stat", "ip", "uname", "nproc"}, strings.Fields(command)[0]) && !strings.HasPrefix(command, "systemctl show ") {
						t.Errorf("it ran %q", command)
					}
				}
				// The machine goes: nothing on the host was ever its own.
				var unclean *UncleanError
				if err := h.CleanUp(t.Context(), machine.InstanceID); err != nil && (!errors.As(err, &unclean) || !unclean.NoRecord) {
					t.Errorf("a clean-up says %v", err)
				}
				if s.plain() != before {
					t.Error("it was cleaned")
				}
			})
		})
	}
}

// A kubelet that was installed and never told which cluster it is for belongs to nobody.
func TestAHostWithAKubeletThatNeverJoinedIsFree(t *testing.T) {
	for name, edit := range map[string]func(*simulated){
		"a host without kubelet":   func(*simulated) {},
		"one that is switched off": func(s *simulated) { s.installed(unitState{loaded: true, active: "inactive", sub: "dead"}) },
		"one that failed":          func(s *simulated) { s.installed(unitState{loaded: true, active: "failed", sub: "failed", restarts: 5}) },
		"one that waits to be started again": func(s *simulated) {
			s.installed(unitState{loaded: true, active: "activating", sub: "auto-restart", enabled: true, restarts: 5, started: 99995 * time.Second})
		},
		"one that just started again": func(s *simulated) {
			s.installed(unitState{loaded: true, active: "active", sub: "running", enabled: true, restarts: 6, started: 99999 * time.Second})
		},
		"one beside Nodes that are elsewhere": func(s *simulated) { s.installed(unitState{loaded: true, active: "inactive"}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(t)
				edit(s)
				machine := worker()
				machine.Nodes = aHostNode()
				if progress, err := untilEnded(t.Context(), New(s, "admin"), machine); err != nil || progress.State != Done {
					t.Errorf("%+v, %v", progress, err)
				}
			})
		})
	}
}

// A machine's own kubelet would pass for somebody's otherwise.
func TestAMachinesOwnHostIsNeverThatOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for cut := 1; ; cut++ {
			s := newSimulated(t)
			h := New(s, "admin")
			machine := worker()
			s.cutAfter = cut
			_, err := untilEnded(t.Context(), h, machine)
			s.cutAfter = 0
			if facts, _, probeErr := h.Probe(t.Context()); probeErr != nil || Judge(&facts.Usage, machine.claimant()).Use == OfOthers {
				t.Errorf("cut after %q it is %+v, %v", s.ran[cut-1], facts, probeErr)
			}
			if _, again := untilEnded(t.Context(), h, machine); again != nil {
				t.Errorf("cut after %q: %v", s.ran[cut-1], again)
			}
			// A failed bootstrap whose kubelet runs gets other data.
			machine.UserData = append(machine.UserData, "# another token\n"...)
			if record, _ := h.readRecord(t.Context()); record != nil {
				record.Done = false
				if err := h.writeRecord(t.Context(), record); err != nil {
					t.Fatal(err)
				}
			}
			machine.Nodes = []Node{{Name: "worker-1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}}
			s.answers["ip -json address show scope global"] = ssh.Result{Stdout: []byte(aNodesAddresses)}
			if _, other := untilEnded(t.Context(), h, machine); other != nil {
				t.Errorf("cut after %q, with other data: %v", s.ran[cut-1], other)
			}
			if err == nil {
				return
			}
		}
	})
}

func TestAHostThatAPersonGivesAwayIsWipedAndBecomesAMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for cut := 1; ; cut++ {
			s := newSimulated(t)
			before := s.plain()
			s.joined()
			h := New(s, "admin")
			machine := worker()
			machine.TakeOver = factOfJoined
			s.cutAfter = cut
			progress, err := untilEnded(t.Context(), h, machine)
			s.cutAfter = 0
			if err != nil {
				progress, again := untilEnded(t.Context(), h, machine)
				if again != nil || progress.State != Done {
					// What it is like may have changed before the record was written: nothing may.
					t.Fatalf("cut after %q: %+v, %v", s.ran[cut-1], progress, again)
				}
			}
			if s.files[kubeconfigFile] == foreignKubeconfig || s.there("/etc/cni/net.d/10-theirs.conflist") || slices.Contains(s.mounts, podsDir+"/1/volumes/a") {
				t.Errorf("cut after %q the node is still there", s.ran[min(cut, len(s.ran))-1])
			}
			if record, recordErr := h.readRecord(t.Context()); recordErr != nil || record.TakenOver != factOfJoined || slices.Contains(record.Mounts, podsDir+"/1/volumes/a") {
				t.Errorf("%+v, %v", record, recordErr)
			}
			if err := h.CleanUp(t.Context(), machine.InstanceID); err != nil {
				t.Errorf("cut after %q: %v", s.ran[min(cut, len(s.ran))-1], err)
			}
			// What its owner put beside the node stays; nothing of a node does.
			for _, file := range []string{"/lib/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service"} {
				if s.files[file] != "theirs" {
					t.Errorf("%s is %q", file, s.files[file])
				}
				delete(s.files, file)
			}
			delete(s.units, kubeletUnit)
			if after := s.plain(); after != before {
				t.Errorf("the host was\n%s\nand is\n%s", before, after)
			}
			if err == nil {
				if progress.State != Done || cut < 40 {
					t.Errorf("%+v after %d commands", progress, cut)
				}
				return
			}
		}
	})
}

func TestJudgeSaysWhoseAHostIs(t *testing.T) {
	address := netip.MustParseAddr
	theirs := &Record{Namespace: "other", Name: "worker-9", InstanceID: "id-9"}
	nodes := []Node{
		{Name: "b", Addresses: []netip.Addr{address("192.0.2.7")}},
		{Name: "a", Addresses: []netip.Addr{address("2001:db8::7"), address("::ffff:192.0.2.7")}},
	}
	const fact = "the host cluster's Node a has the address 192.0.2.7"
	at := Usage{Addresses: []netip.Addr{address("2001:db8::7"), address("192.0.2.7")}}
	for name, test := range map[string]struct {
		usage    Usage
		claimant Claimant
		want     Verdict
	}{
		"a plain host":                                {Usage{}, Claimant{}, Verdict{Use: Free}},
		"a plain host of a machine":                   {Usage{}, Claimant{InstanceID: "id-1"}, Verdict{Use: Free}},
		"a plain host with a word that nothing needs": {Usage{}, Claimant{TakeOver: "kubelet runs"}, Verdict{Use: Free}},
		"its machine":                                 {Usage{Record: &Record{InstanceID: "id-1"}, Kubelets: []string{kubeletUnit}, Kubeconfig: true}, Claimant{InstanceID: "id-1"}, Verdict{Use: Ours}},
		"its machine, without its record":             {Usage{Kubelets: []string{kubeletUnit}, Kubeconfig: true}, Claimant{InstanceID: "id-1", Bootstrapped: true}, Verdict{Use: Ours}},
		"a machine of others":                         {Usage{Record: theirs}, Claimant{InstanceID: "id-1", Bootstrapped: true}, Verdict{Use: OfOthers, Record: theirs}},
		"a machine of others that a person wants":     {Usage{Record: theirs, Kubelets: []string{kubeletUnit}}, Claimant{TakeOver: "kubelet runs"}, Verdict{Use: OfOthers, Record: theirs}},
		"a record that names no machine":              {Usage{Record: &Record{}}, Claimant{InstanceID: "id-1"}, Verdict{Use: OfOthers, Record: &Record{}}},
		"software of nobody whom we know":             {Usage{Software: true}, Claimant{}, Verdict{Use: OfOthers, Fact: "/opt/kok-software/state.json is there"}},
		"a kubeconfig that leads nowhere":             {Usage{Kubeconfig: true}, Claimant{}, Verdict{Use: OfOthers, Fact: "/etc/kubernetes/kubelet.conf is there"}},
		"two Nodes at its addresses":                  {at, Claimant{Nodes: nodes}, Verdict{Use: OfOthers, Fact: fact}},
		"a Node at the address that it is reached at": {Usage{}, Claimant{Nodes: nodes, Reached: address("192.0.2.7")}, Verdict{Use: OfOthers, Fact: fact}},
		"a host that is reached by its name":          {Usage{}, Claimant{Nodes: []Node{{Name: "a", Addresses: []netip.Addr{{}}}}}, Verdict{Use: Free}},
		"a Node that a person accepts":                {at, Claimant{Nodes: nodes, TakeOver: fact}, Verdict{Use: TakenOver, Fact: fact}},
		"a Node beside the kubelet that a person accepts": {Usage{Kubelets: []string{kubeletUnit}, Addresses: at.Addresses}, Claimant{Nodes: nodes, TakeOver: "kubelet runs"},
			Verdict{Use: OfOthers, Fact: "kubelet runs, and " + fact}},
		"a word that is longer than the fact": {at, Claimant{Nodes: nodes, TakeOver: fact + " "}, Verdict{Use: OfOthers, Fact: fact}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(&test.usage, &test.claimant)
			if fmt.Sprintf("%+v", got.Record) != fmt.Sprintf("%+v", test.want.Record) || got.Use != test.want.Use || got.Fact != test.want.Fact {
				t.Errorf("it is %+v", got)
			}
			if refused := got.Err() != nil; refused != (test.want.Use == OfOthers) {
				t.Errorf("refused: %t", refused)
			}
		})
	}
}

// What a host writes goes into conditions, and a person copies it.
func TestAKubeconfigsServerIsPrintedWithoutSecretsAndWithinBounds(t *testing.T) {
	for line, want := range map[string]string{
		"server: https://10.0.0.1:6443\n":                      "https://10.0.0.1:6443",
		`server": "https://API.Example.com/`:                   "https://api.example.com",
		"server: 'http://[2001:DB8::1]:8080/path?token=abc":    "http://[2001:db8::1]:8080",
		"server: https://admin:hunter2@10.0.0.1:6443":          "https://10.0.0.1:6443",
		"server: https://a.example\nserver: https://b.example": "https://a.example",
		"server: https://a\"b":                                 "",
		"server: https://a\x1b[0m":                             "",
		"server: https://ä.example":                            "",
		"server: https://10.0.0.1:99999":                       "",
		"server: https://10.0.0.1:0":                           "",
		"server: https://[fe80::1%25eth0]:6443":                "",
		"server: https://" + strings.Repeat("a", 300):          "",
		"server: https://":                                     "",
		"grep: no such file":                                   "",
		"":                                                     "",
	} {
		if got := serverIn([]byte(line)); got != want {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	}
}

// The schema has room for every fact.
func TestTheLongestFactCanBeRepeated(t *testing.T) {
	const most = 1024 // MaxLength of spec.takeOver
	name := strings.Repeat("n", 253)
	address := netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666")
	usage := &Usage{Kubelets: kubeletUnits, Kubeconfig: true, Server: serverIn([]byte("https://" + name + ":65535")), Addresses: []netip.Addr{address}}
	if fact := factOf(usage, &Claimant{Nodes: []Node{{Name: name, Addresses: []netip.Addr{address}}}}); len(fact) > most || strings.Count(fact, name) != 2 {
		t.Errorf("it has %d bytes: %s", len(fact), fact)
	}
}
