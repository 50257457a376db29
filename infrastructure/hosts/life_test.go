package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Keys of authorized_keys, in base64.
const (
	adminKey  = "AAAAC3NzaC1lZDI1NTE5AAAAIBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ"
	tenantKey = "AAAAC3NzaC1lZDI1NTE5AAAAIHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0"
)

const userData = `#cloud-config
write_files:
- path: /etc/systemd/system/kubelet.service
  content: kubelet
- path: /etc/systemd/system/watch@.service
  content: watch
- path: /etc/motd
  content: changed
- path: /etc/systemd/system/containerd.service.d/90-kok-proxy.conf
  content: EnvironmentFile=/etc/kok/proxy.env
- path: ` + onworker.DownloadsFile + `
  encoding: b64
  content: WyIvdXNyL2xvY2FsL2Jpbi9rdWJlbGV0IiwgIi91c3IvbG9jYWwvYmluL2t1YmVsZXQucGFydCIsICIvdXNyL2Jpbi9jdHIiXQo= # /usr/local/bin/kubelet, its .part, /usr/bin/ctr
users:
- default
- name: deploy
  sudo: ALL=(ALL) NOPASSWD:ALL
  ssh_authorized_keys:
  - ssh-ed25519 ` + tenantKey + ` tenant
- name: admin
  ssh_authorized_keys: [ssh-ed25519 ` + adminKey + `, ssh-ed25519 ` + tenantKey + `]
ntp: {servers: [theirs]}
apt:
  http_proxy: http://theirs.example.com
  sources:
    theirs: {source: deb https://theirs.example.com ./, key: key}
runcmd: []
`

func worker() Machine {
	return Machine{Namespace: "team", Name: "worker-1", InstanceID: "id-1", ProviderID: "idc://team/host-1", UserData: []byte(userData)}
}

// untilEnded bootstraps until there is nothing more to do.
func untilEnded(ctx context.Context, h *Host, machine Machine) (Progress, error) {
	for {
		progress, err := h.Bootstrap(ctx, machine)
		if err != nil || progress.State != Running {
			return progress, err
		}
	}
}

func TestAHostBecomesAMachineAndAHostAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		before := s.plain()
		h := New(s, "admin")
		if progress, err := untilEnded(t.Context(), h, worker()); err != nil || progress.State != Done {
			t.Fatalf("%+v, %v", progress, err)
		}
		if got := s.files[seedDir+"/user-data"]; got != userData {
			t.Errorf("user data is %q", got)
		}
		meta := map[string]string{}
		if err := json.Unmarshal([]byte(s.files[seedDir+"/meta-data"]), &meta); err != nil || meta["instance-id"] != "id-1" || meta["local-hostname"] != "worker-1" || meta["provider_id"] != "idc://team/host-1" {
			t.Errorf("meta data is %v, %v", meta, err)
		}
		if got := s.files[kubeletFile]; got != "KUBELET_EXTRA_ARGS=--provider-id=idc://team/host-1\n" {
			t.Errorf("%s is %q", kubeletFile, got)
		}
		ran := len(s.ran)
		if progress, err := h.Bootstrap(t.Context(), worker()); err != nil || progress.State != Done || s.starts != 1 || len(s.ran) > ran+2 {
			t.Errorf("once more it took %q", s.ran[ran:])
		}
		if err := h.CleanUp(t.Context(), "id-1"); err != nil {
			t.Fatal(err)
		}
		if after := s.plain(); after != before {
			t.Errorf("the host was\n%s\nand is\n%s", before, after)
		}
		if !slices.Contains(s.mounts, "/data") {
			t.Error("a mount of the host's own is gone")
		}
		ran = len(s.ran)
		if err := h.CleanUp(t.Context(), "id-1"); err != nil || len(s.ran) != ran+2 {
			t.Errorf("once more: %v, %q", err, s.ran[ran:])
		}
	})
}

// hostsByKind are those that can be cut off.
var hostsByKind = map[string]func(*testing.T) *simulated{"a host with containerd": newSimulated, "a bare host": newBare}

// onEach runs a test on each kind of host.
func onEach(t *testing.T, test func(*testing.T, func(*testing.T) *simulated)) {
	for name, kind := range hostsByKind {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, kind) })
		})
	}
}

// A program that is killed, or a connection that breaks, leaves the next one in the middle.
func TestABootstrapThatIsCutGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, kind func(*testing.T) *simulated) {
		for cut := 1; ; cut++ {
			s := kind(t)
			before := s.plain()
			h := New(s, "admin")
			s.cutAfter = cut
			_, err := untilEnded(t.Context(), h, worker())
			if err == nil {
				if cut < 30 {
					t.Errorf("it took only %d commands", cut)
				}
				return
			}
			s.cutAfter = 0
			if cut%2 == 0 {
				if progress, err := untilEnded(t.Context(), h, worker()); err != nil || progress.State != Done || s.starts > 1 {
					t.Errorf("cut after %q: %+v, %v, cloud-init was started %d times", s.ran[cut-1], progress, err, s.starts)
				}
			}
			if err := h.CleanUp(t.Context(), "id-1"); err != nil {
				t.Errorf("cut after %q: %v", s.ran[cut-1], err)
			}
			if after := s.plain(); after != before {
				t.Errorf("cut after %q, the host was\n%s\nand is\n%s", s.ran[cut-1], before, after)
			}
		}
	})
}

func TestACleanUpThatIsCutGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, kind func(*testing.T) *simulated) {
		for cut := 1; ; cut++ {
			s := kind(t)
			before := s.plain()
			h := New(s, "root")
			if _, err := untilEnded(t.Context(), h, worker()); err != nil {
				t.Fatal(err)
			}
			s.ran, s.cutAfter = nil, cut
			if h.CleanUp(t.Context(), "id-1") == nil {
				if cut < 20 {
					t.Errorf("it took only %d commands", cut)
				}
				return
			}
			s.cutAfter = 0
			if err := h.CleanUp(t.Context(), "id-1"); err != nil {
				t.Errorf("cut after %q: %v", s.ran[cut-1], err)
			}
			if after := s.plain(); after != before {
				t.Errorf("cut after %q, the host was\n%s\nand is\n%s", s.ran[cut-1], before, after)
			}
		}
	})
}

// ending is a host in whose visit the time ends after some commands.
type ending struct {
	*simulated
	after int
	end   context.CancelFunc
}

func (e *ending) Run(ctx context.Context, command ssh.Command) (ssh.Result, error) {
	result, err := e.simulated.Run(ctx, command)
	if len(e.ran) == e.after {
		e.end()
	}
	return result, err
}

// Between two steps of a clean-up nothing has failed.
func TestACleanUpWhoseTimeEndsIsNotTakenForDone(t *testing.T) {
	onEach(t, func(t *testing.T, kind func(*testing.T) *simulated) {
		for after := 1; ; after++ {
			s := kind(t)
			if _, err := untilEnded(t.Context(), New(s, "admin"), worker()); err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			s.ran = nil
			err := New(&ending{s, after, end}, "admin").CleanUp(ctx, "id-1")
			if err == nil && s.there(recordFile) {
				t.Errorf("it is clean after %q", s.ran[after-1])
			}
			end()
			if len(s.ran) < after {
				return
			}
		}
	})
}

func TestAFailedBootstrapSaysWhyAndKeepsSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		s.succeed = false
		h := New(s, "admin")
		for range 2 {
			progress, err := untilEnded(t.Context(), h, worker())
			if err != nil || progress.State != Failed || !strings.Contains(progress.Detail, "Runparts: 1 failures") {
				t.Errorf("%+v, %v", progress, err)
			}
			if want := "Cloud-init starts\ntoken: <redacted>\nit broke"; progress.Output != want {
				t.Errorf("the output is %q", progress.Output)
			}
		}
		if s.starts != 1 {
			t.Errorf("cloud-init was started %d times with the same data", s.starts)
		}
		s.succeed = true
		other := worker()
		other.UserData = append(other.UserData, "# another token\n"...)
		if progress, err := untilEnded(t.Context(), h, other); err != nil || progress.State != Done || s.starts != 2 {
			t.Errorf("with other data: %+v, %v, cloud-init was started %d times", progress, err, s.starts)
		}
		if progress, err := untilEnded(t.Context(), h, worker()); err != nil || progress.State != Done || s.starts != 2 {
			t.Errorf("what is done is done anew: %+v, %v", progress, err)
		}
	})
}

// What the first data changed would pass for the host's own otherwise, and stay.
func TestAHostIsCleanedBeforeItGetsOtherBootstrapData(t *testing.T) {
	onEach(t, func(t *testing.T, kind func(*testing.T) *simulated) {
		s := kind(t)
		before := s.plain()
		h := New(s, "admin")
		s.succeed = false
		if progress, err := untilEnded(t.Context(), h, worker()); err != nil || progress.State != Failed {
			t.Fatalf("%+v, %v", progress, err)
		}
		s.succeed = true
		other := worker()
		other.UserData = append(other.UserData, "# another token\n"...)
		if progress, err := untilEnded(t.Context(), h, other); err != nil || progress.State != Done {
			t.Fatalf("%+v, %v", progress, err)
		}
		if err := h.CleanUp(t.Context(), "id-1"); err != nil {
			t.Fatal(err)
		}
		if after := s.plain(); after != before {
			t.Errorf("the host was\n%s\nand is\n%s", before, after)
		}
	})
}

// After a move to another management cluster a host is asked what it is; its bootstrap data may be gone by then.
func TestOnlyAHostThatIsNoMachineYetNeedsBootstrapData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		h := New(s, "admin")
		without := worker()
		without.UserData = nil
		before := s.plain()
		if progress, err := h.Bootstrap(t.Context(), without); !errors.Is(err, ErrNoBootstrapData) || s.plain() != before {
			t.Errorf("a plain host: %+v, %v", progress, err)
		}
		if _, err := untilEnded(t.Context(), h, worker()); err != nil {
			t.Fatal(err)
		}
		if progress, err := h.Bootstrap(t.Context(), without); err != nil || progress.State != Done {
			t.Errorf("a machine: %+v, %v", progress, err)
		}
	})
}

func TestAnotherMachinesHostIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		h := New(s, "admin")
		if _, err := untilEnded(t.Context(), h, worker()); err != nil {
			t.Fatal(err)
		}
		before := s.plain()
		other := worker()
		other.Name, other.InstanceID = "worker-2", "id-2"
		var inUse *InUseError
		if _, err := h.Bootstrap(t.Context(), other); !errors.As(err, &inUse) || inUse.Record.Name != "worker-1" ||
			!strings.HasSuffix(err.Error(), "put back what is in /var/lib/kok-infrastructure/originals and remove /var/lib/kok-infrastructure on it") {
			t.Errorf("bootstrap: %v", err)
		}
		if err := h.CleanUp(t.Context(), "id-2"); !errors.As(err, &inUse) {
			t.Errorf("clean-up: %v", err)
		}
		facts, problem, err := h.Probe(t.Context())
		if err != nil || problem != nil {
			t.Fatalf("probe: %v, %v", problem, err)
		}
		for instanceID, use := range map[string]Use{"": OfOthers, "id-2": OfOthers, "id-1": Ours} {
			if got := Judge(&facts.Usage, &Claimant{InstanceID: instanceID, TakeOver: "kubelet runs"}); got.Use != use {
				t.Errorf("for machine %q it is %+v", instanceID, got)
			}
		}
		if after := s.plain(); after != before {
			t.Error("it was changed")
		}
	})
}

// A host that does not let us look is not clean.
func TestAHostWithoutSudoIsNeverTakenForClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		h := New(s, "admin")
		s.noSudo = true
		if err := h.CleanUp(t.Context(), "id-1"); err == nil || !strings.Contains(err.Error(), "a password is required") {
			t.Errorf("clean-up: %v", err)
		}
		if progress, err := h.Bootstrap(t.Context(), worker()); err == nil || !strings.Contains(err.Error(), "a password is required") {
			t.Errorf("bootstrap: %+v, %v", progress, err)
		}
	})
}

func TestACleanUpThatLeavesSomethingSaysWhat(t *testing.T) {
	for name, test := range map[string]struct {
		sticky string
		want   string
	}{
		"a folder": {"/var/lib/kubelet", "after the clean-up there still is: file /var/lib/kubelet/config.yaml"},
		"a device": {"cni0", "after the clean-up there still is: network device cni0"},
		"a key":    {"/home/admin/.ssh/authorized_keys", "after the clean-up there still is: SSH keys in /home/admin/.ssh/authorized_keys"},
		"a seed":   {cloudDir, "after the clean-up there still is: file " + seedDir},
		"a table":  {"ip6 kube-proxy", "after the clean-up there still is: nftables table ip6 kube-proxy"},
		"a rule":   {"iptables", "after the clean-up there still is: a node's rules in what iptables-save prints"},
		"a chain":  {"ip nat KUBE-SERVICES", "after the clean-up there still is: nftables chain ip nat KUBE-SERVICES"},
		"an image": {"sha256:0123", "after the clean-up there still is: image sha256:0123"},
		"a unit":   {"kubelet.service", "after the clean-up there still is: unit kubelet.service (active)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(t)
				if test.sticky == cloudDir {
					s.remove(cloudDir)
				}
				h := New(s, "admin")
				if _, err := untilEnded(t.Context(), h, worker()); err != nil {
					t.Fatal(err)
				}
				s.sticky[test.sticky] = true
				if name == "a chain" { // Nothing that the host has shows it, but nft.
					s.chains = append(s.chains, test.sticky)
				}
				var unclean *UncleanError
				if err := h.CleanUp(t.Context(), "id-1"); !errors.As(err, &unclean) || unclean.Error() != test.want {
					t.Errorf("%v", err)
				}
				s.sticky, s.chains = map[string]bool{}, s.chains[:1]
				if err := h.CleanUp(t.Context(), "id-1"); err != nil || s.there(stateDir) {
					t.Errorf("a second one: %v", err)
				}
			})
		})
	}
}

// sudo looks up the name that the host has, with each command.
func TestAHostsNameCanBeLookedUpWhileItIsCleaned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		h := New(s, "admin")
		if _, err := untilEnded(t.Context(), h, worker()); err != nil {
			t.Fatal(err)
		}
		const rename = "hostname -- host-1"
		s.answers[rename] = ssh.Result{ExitStatus: 3}
		if err := h.CleanUp(t.Context(), "id-1"); err == nil || s.files[hostsFile] != "127.0.1.1 worker-1\n" {
			t.Errorf("with its name as it is it has the line %q, %v", s.files[hostsFile], err)
		}
		delete(s.answers, rename)
		s.ran = nil
		if err := h.CleanUp(t.Context(), "id-1"); err != nil {
			t.Fatal(err)
		}
		if i := slices.Index(s.ran, rename); i < 0 || !strings.HasSuffix(s.ran[i+1], originalsDir+hostsFile+" "+hostsFile) {
			t.Errorf("after its name changed it ran %q", s.ran[max(i, 0)+1])
		}
	})
}

// A key that was taken back must not let anybody in again, and one that is needed must stay.
func TestKeysThatPeopleChangeMeanwhileStayAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		h := New(s, "admin")
		if _, err := untilEnded(t.Context(), h, worker()); err != nil {
			t.Fatal(err)
		}
		const file = "/home/admin/.ssh/authorized_keys"
		s.files[file] = "# new\n" + strings.ReplaceAll(s.files[file], adminKey, "AAAArotated")
		if err := h.CleanUp(t.Context(), "id-1"); err != nil {
			t.Fatal(err)
		}
		if want := "# new\nssh-ed25519 AAAArotated admin\n"; s.files[file] != want {
			t.Errorf("%s is %q", file, s.files[file])
		}
	})
}

// With an instance that is new to cloud-init at the next boot the host would get other SSH host keys.
func TestCloudInitRemembersTheHostsOwnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		h := New(s, "admin")
		if _, err := untilEnded(t.Context(), h, worker()); err != nil {
			t.Fatal(err)
		}
		if s.files[cloudDir+"/data/instance-id"] != "" || s.files[seedDir+"/meta-data"] == "instance-id: ours" {
			t.Fatal("the machine has the host's own instance")
		}
		if err := h.CleanUp(t.Context(), "id-1"); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{
			cloudDir + "/data/instance-id": "ours", cloudDir + "/instance/sem/config_ssh": "done", seedDir + "/meta-data": "instance-id: ours", seedDir + "/user-data": "",
		} {
			if s.files[file] != want {
				t.Errorf("%s is %q", file, s.files[file])
			}
		}
	})
}

// Images that nobody knows the origin of stay: a site without a registry puts them there.
func TestOnlyImagesThatCameWithTheMachineGo(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*simulated)
		want string
	}{
		"a host with images": {func(*simulated) {}, "[registry.k8s.io/pause:3.10] active"},
		"containerd never ran before": {func(s *simulated) {
			s.units[containerdUnit].active, s.images = "inactive", nil
			s.remove(containerdMetadata)
		}, "[] active"},
		"containerd does not run, but did":    {func(s *simulated) { s.units[containerdUnit].active = "inactive" }, "[registry.k8s.io/pause:3.10 registry.example.com/private/app:1 sha256:0123] active"},
		"the bootstrap data bring containerd": {func(s *simulated) { s.remove("/usr/bin/ctr"); s.remove("/usr/bin/containerd"); s.images = nil }, "[] active"},
		"the bootstrap data bring ctr alone":  {func(s *simulated) { s.remove("/usr/bin/ctr") }, "[registry.k8s.io/pause:3.10 registry.example.com/private/app:1 sha256:0123] active"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(t)
				test.edit(s)
				h := New(s, "admin")
				if _, err := untilEnded(t.Context(), h, worker()); err != nil {
					t.Fatal(err)
				}
				if err := h.CleanUp(t.Context(), "id-1"); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(s.images, " ", s.units[containerdUnit].active); got != test.want {
					t.Errorf("there are %s", got)
				}
			})
		})
	}
}

// Without its record nobody knows what came with a machine.
func TestANodeWithoutARecordIsNotTakenForClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		h := New(s, "admin")
		if _, err := untilEnded(t.Context(), h, worker()); err != nil {
			t.Fatal(err)
		}
		s.remove(stateDir)
		for _, left := range []string{"file " + kubeconfigFile + "; file " + sentinelFile, "file " + sentinelFile} {
			var unclean *UncleanError
			want := "after the clean-up there still is: " + left + ", and " + recordFile + ", which says what else came with the machine, is gone"
			if err := h.CleanUp(t.Context(), "id-1"); !errors.As(err, &unclean) || unclean.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			s.remove(kubeconfigFile)
		}
		s.remove(sentinelDir)
		if err := h.CleanUp(t.Context(), "id-1"); err != nil {
			t.Errorf("put right: %v", err)
		}
	})
}

func TestWhatAHostHasInANodesFoldersIsNotPutBack(t *testing.T) {
	for name, older := range map[string]bool{"noted by this controller": false, "noted by an older one": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const own = "/etc/kubernetes/audit.yaml"
				s := newSimulated(t)
				s.files[own] = "ours"
				h := New(s, "admin")
				machine := worker()
				machine.UserData = []byte("#cloud-config\nwrite_files: [{path: " + own + "}, {path: /etc/motd}]\n")
				if _, err := untilEnded(t.Context(), h, machine); err != nil {
					t.Fatal(err)
				}
				record, err := h.readRecord(t.Context())
				if err != nil || slices.Contains(record.Replaced, own) || slices.Contains(record.Added, own) || s.there(originalsDir+own) {
					t.Errorf("%+v, %v", record, err)
				}
				if older {
					record.Replaced, s.files[originalsDir+own] = append(record.Replaced, own), "ours"
					if err := h.writeRecord(t.Context(), record); err != nil {
						t.Fatal(err)
					}
				}
				if err := h.CleanUp(t.Context(), "id-1"); err != nil || s.there(own) || s.files["/etc/motd"] != "hello\n" {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// Keys go where the SSH server reads them; with a wrong guess they would stay after the machine.
func TestAnSSHServerWhoseSettingsCannotBeReadIsNotTakenForOneWithDefaults(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*simulated)
		want string
	}{
		"one with a mistake in its settings": {func(s *simulated) {
			s.answers["sshd -T"] = ssh.Result{ExitStatus: 255, Stderr: []byte("sshd_config line 7: Bad configuration option\n")}
		}, "note what is on the host: read where the SSH server has authorized keys: sshd -T ended with status 255: sshd_config line 7: Bad configuration option"},
		"a host with another SSH server": {func(s *simulated) { s.remove("/usr/bin/sshd"); s.answers["sshd -T"] = ssh.Result{ExitStatus: 127} }, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulated(t)
				test.edit(s)
				if _, err := untilEnded(t.Context(), New(s, "admin"), worker()); fmt.Sprint(err) != test.want {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// Volumes of the root disk have its device number: removing "on one file system" goes into them.
func TestAVolumeThatStaysMountedKeepsItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t)
		h := New(s, "admin")
		if _, err := untilEnded(t.Context(), h, worker()); err != nil {
			t.Fatal(err)
		}
		const stays, other, data = "/var/lib/kubelet/pods/1/volumes/a b", "/var/lib/kubelet/pods/2/volumes/c", "/var/lib/kubelet/pods/1/volumes/a b/data"
		s.mounts = slices.Insert(s.mounts, 1, other)
		s.files[data], s.sticky[stays] = "precious", true
		err := h.CleanUp(t.Context(), "id-1")
		for _, want := range []string{"unmount volumes: umount --lazy -- " + stays, "remove a node's files: they all stay", stays + " is still mounted", "there still is: mount " + stays} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
		if s.files[data] != "precious" {
			t.Error("the volume lost its data")
		}
		if slices.Contains(s.mounts, other) {
			t.Error("the other volume is still mounted")
		}
		s.sticky = map[string]bool{}
		if err := h.CleanUp(t.Context(), "id-1"); err != nil {
			t.Errorf("unmounted: %v", err)
		}
	})
}

// An instance ID is part of the provider ID, which goes into a file of kubelet's arguments.
func TestFinding11AMachineWhoseNamesAreMoreThanNamesIsRefused(t *testing.T) {
	for name, id := range map[string]string{
		"a line of its own": "1\nKUBELET_EXTRA_ARGS=--anonymous-auth=true", "another argument": "1 --anonymous-auth=true", "a quote": `1" --a="`, "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulated(t)
			before := maps.Clone(s.files)
			m := worker()
			m.InstanceID, m.ProviderID = id, "idc://team/host-1/"+id
			_, err := New(s, "root").Bootstrap(t.Context(), m)
			if err == nil || !strings.Contains(err.Error(), "spec.") {
				t.Errorf("it became a machine: %v", err)
			}
			if !maps.Equal(before, s.files) {
				t.Errorf("the host was changed")
			}
		})
	}
}
