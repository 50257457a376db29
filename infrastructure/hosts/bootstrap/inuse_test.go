package bootstrap_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap/bootstraptest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
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
func joined(s *hosttest.Simulated) {
	s.Units[onworker.KubeletUnit] = &hosts.UnitState{Loaded: true, Active: "active", Sub: "running", Enabled: true}
	s.Files[onworker.Kubeconfig] = foreignKubeconfig
	s.Files["/var/lib/kubelet/pods/1/etc-hosts"], s.Files["/etc/cni/net.d/10-theirs.conflist"] = "", "theirs"
	s.Files["/lib/systemd/system/kubelet.service"], s.Files["/etc/systemd/system/kubelet.service"] = "theirs", "theirs"
	s.Mounts = append(s.Mounts, "/var/lib/kubelet/pods/1/volumes/a")
	s.Tasks, s.Links = []string{"89abcde"}, append(s.Links, "cni0")
}

// installed is what a package of kubelet does: systemd starts it again and again, and it ends for want of settings.
func installed(s *hosttest.Simulated, state hosts.UnitState) {
	s.Files["/usr/bin/kubelet"] = "packaged"
	s.Units[onworker.KubeletUnit] = &state
}

const factOfJoined = "kubelet runs, and /etc/kubernetes/kubelet.conf leads to https://10.0.0.1:6443"

// aHostNode is a Node of the host cluster at an address in hosttest.NodeAddresses.
func aHostNode() []ownership.Node {
	return []ownership.Node{{Name: "idc-1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}}
}

// Somebody's node would be joined to a tenant, and wiped when its machine goes.
func TestAHostOfOthersIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	running := hosts.UnitState{Loaded: true, Active: "active", Sub: "running"}
	for name, test := range map[string]struct {
		edit  func(*hosttest.Simulated)
		nodes []ownership.Node
		fact  string
	}{
		"one that kubeadm joined": {edit: joined, fact: factOfJoined},
		"one with a kubelet": {edit: func(s *hosttest.Simulated) { s.Units[onworker.KubeletUnit] = &running },
			fact: "kubelet runs"},
		"one with a kubelet that was started anew": {edit: func(s *hosttest.Simulated) {
			installed(s, hosts.UnitState{Loaded: true, Active: "active", Sub: "running", Restarts: 7, Started: 90000 * time.Second})
		}, fact: "kubelet runs"},
		"one whose kubelet ends again and again": {edit: func(s *hosttest.Simulated) {
			joined(s)
			*s.Units[onworker.KubeletUnit] = hosts.UnitState{Loaded: true, Active: "activating", Sub: "auto-restart", Restarts: 7, Started: 99999 * time.Second}
		}, fact: factOfJoined},
		"one whose kubelet is stopped": {edit: func(s *hosttest.Simulated) { joined(s); s.Units[onworker.KubeletUnit].Active = "inactive" },
			fact: "/etc/kubernetes/kubelet.conf leads to https://10.0.0.1:6443"},
		"one of k3s": {edit: func(s *hosttest.Simulated) { s.Units["k3s-agent.service"] = &running },
			fact: "k3s-agent runs"},
		"a node of the host cluster": {edit: func(s *hosttest.Simulated) {
			s.Answers["ip -json address show scope global"] = ssh.Result{Stdout: []byte(hosttest.NodeAddresses)}
		}, nodes: aHostNode(), fact: "the host cluster's Node idc-1 has the address 192.0.2.7"},
		"a node of the host cluster with its kubelet": {edit: func(s *hosttest.Simulated) {
			joined(s)
			s.Answers["ip -json address show scope global"] = ssh.Result{Stdout: []byte(hosttest.NodeAddresses)}
		}, nodes: aHostNode(), fact: "kubelet runs, /etc/kubernetes/kubelet.conf leads to https://10.0.0.1:6443, and the host cluster's Node idc-1 has the address 192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.New(t)
				test.edit(s)
				before := s.Plain()
				h := hosts.New(s, "admin")
				machine := bootstraptest.Worker()
				machine.Nodes, machine.TakeOver = test.nodes, "another fact"
				for range 2 {
					_, err := bootstrap.Run(t.Context(), h, machine)
					var inUse *ownership.InUseError
					if !errors.As(err, &inUse) || inUse.Fact != test.fact || err.Error() != "the host is in use: "+test.fact {
						t.Errorf("it says %v", err)
					}
				}
				facts, problem, err := probe.Run(t.Context(), h)
				if err != nil || problem != nil {
					t.Fatalf("%v, %v", problem, err)
				}
				if got := ownership.Judge(&facts.Usage, &machine.Claimant); got != (ownership.Verdict{Use: ownership.OfOthers, Fact: test.fact}) {
					t.Errorf("a probe finds %+v", got)
				}
				if s.Plain() != before {
					t.Error("it was changed")
				}
				for _, command := range s.Ran {
					if !slices.Contains([]string{"true", "find", "cat", "grep", "stat", "realpath", "ip", "uname", "nproc"}, strings.Fields(command)[0]) && !strings.HasPrefix(command, "systemctl show ") {
						t.Errorf("it ran %q", command)
					}
				}
				// The machine goes: nothing on the host was ever its own.
				var unclean *cleanup.UncleanError
				if err := cleanup.Run(t.Context(), h, machine.InstanceID); err != nil && (!errors.As(err, &unclean) || !unclean.NoRecord) {
					t.Errorf("a clean-up says %v", err)
				}
				if s.Plain() != before {
					t.Error("it was cleaned")
				}
			})
		})
	}
}

// A kubelet that was installed and never told which cluster it is for belongs to nobody.
func TestAHostWithAKubeletThatNeverJoinedIsFree(t *testing.T) {
	for name, edit := range map[string]func(*hosttest.Simulated){
		"a host without kubelet": func(*hosttest.Simulated) {},
		"one that is switched off": func(s *hosttest.Simulated) {
			installed(s, hosts.UnitState{Loaded: true, Active: "inactive", Sub: "dead"})
		},
		"one that failed": func(s *hosttest.Simulated) {
			installed(s, hosts.UnitState{Loaded: true, Active: "failed", Sub: "failed", Restarts: 5})
		},
		"one that waits to be started again": func(s *hosttest.Simulated) {
			installed(s, hosts.UnitState{Loaded: true, Active: "activating", Sub: "auto-restart", Enabled: true, Restarts: 5, Started: 99995 * time.Second})
		},
		"one that just started again": func(s *hosttest.Simulated) {
			installed(s, hosts.UnitState{Loaded: true, Active: "active", Sub: "running", Enabled: true, Restarts: 6, Started: 99999 * time.Second})
		},
		"one beside Nodes that are elsewhere": func(s *hosttest.Simulated) { installed(s, hosts.UnitState{Loaded: true, Active: "inactive"}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.New(t)
				edit(s)
				machine := bootstraptest.Worker()
				machine.Nodes = aHostNode()
				bootstraptest.Bootstrapped(t, s, machine)
			})
		})
	}
}

// A machine's own kubelet would pass for somebody's otherwise.
func TestAMachinesOwnHostIsNeverThatOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for cut := 1; ; cut++ {
			s := hosttest.New(t)
			h := hosts.New(s, "admin")
			machine := bootstraptest.Worker()
			s.CutAfter = cut
			_, err := bootstraptest.UntilEnded(t.Context(), h, machine)
			s.CutAfter = 0
			if facts, _, probeErr := probe.Run(t.Context(), h); probeErr != nil || ownership.Judge(&facts.Usage, &machine.Claimant).Use == ownership.OfOthers {
				t.Errorf("cut after %q it is %+v, %v", s.Ran[cut-1], facts, probeErr)
			}
			if _, again := bootstraptest.UntilEnded(t.Context(), h, machine); again != nil {
				t.Errorf("cut after %q: %v", s.Ran[cut-1], again)
			}
			// A failed bootstrap whose kubelet runs gets other data.
			machine.UserData = append(machine.UserData, "# another token\n"...)
			if record, _ := records.Read(t.Context(), h); record != nil {
				record.Done = false
				if err := record.Write(t.Context(), h); err != nil {
					t.Fatal(err)
				}
			}
			machine.Nodes = []ownership.Node{{Name: "worker-1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}}
			s.Answers["ip -json address show scope global"] = ssh.Result{Stdout: []byte(hosttest.NodeAddresses)}
			if _, other := bootstraptest.UntilEnded(t.Context(), h, machine); other != nil {
				t.Errorf("cut after %q, with other data: %v", s.Ran[cut-1], other)
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
			s := hosttest.New(t)
			s.Routes = s.Routes[:2] // The last leads to addresses of pods. It may be the node's, and goes.
			before := s.Plain()
			joined(s)
			const toTheirs = "10.244.3.0/24 via 192.0.2.9 dev eth0"
			s.Routes = append(s.Routes, toTheirs)
			h := hosts.New(s, "admin")
			machine := bootstraptest.Worker()
			machine.TakeOver = factOfJoined
			s.CutAfter = cut
			progress, err := bootstraptest.UntilEnded(t.Context(), h, machine)
			s.CutAfter = 0
			if err != nil {
				progress, again := bootstraptest.UntilEnded(t.Context(), h, machine)
				if again != nil || progress.State != bootstrap.Done {
					// What it is like may have changed before the record was written: nothing may.
					t.Fatalf("cut after %q: %+v, %v", s.Ran[cut-1], progress, again)
				}
			}
			if s.Files[onworker.Kubeconfig] == foreignKubeconfig || s.There("/etc/cni/net.d/10-theirs.conflist") || slices.Contains(s.Mounts, "/var/lib/kubelet/pods/1/volumes/a") || slices.Contains(s.Routes, toTheirs) {
				t.Errorf("cut after %q the node is still there", s.Ran[min(cut, len(s.Ran))-1])
			}
			if record, recordErr := records.Read(t.Context(), h); recordErr != nil || record.TakenOver != factOfJoined || slices.Contains(record.Mounts, "/var/lib/kubelet/pods/1/volumes/a") {
				t.Errorf("%+v, %v", record, recordErr)
			}
			if err := cleanup.Run(t.Context(), h, machine.InstanceID); err != nil {
				t.Errorf("cut after %q: %v", s.Ran[min(cut, len(s.Ran))-1], err)
			}
			// What its owner put beside the node stays; nothing of a node does.
			for _, file := range []string{"/lib/systemd/system/kubelet.service", "/etc/systemd/system/kubelet.service"} {
				if s.Files[file] != "theirs" {
					t.Errorf("%s is %q", file, s.Files[file])
				}
				delete(s.Files, file)
			}
			delete(s.Units, onworker.KubeletUnit)
			s.ExpectPlain(before, "after the clean-up")
			if err == nil {
				if progress.State != bootstrap.Done || cut < 40 {
					t.Errorf("%+v after %d commands", progress, cut)
				}
				return
			}
		}
	})
}
