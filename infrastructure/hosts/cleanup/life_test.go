package cleanup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap/bootstraptest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

func TestAHostBecomesAMachineAndAHostAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		before := s.Plain()
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		if got := s.Files[cloudinit.SeedDir+"/user-data"]; got != hosttest.UserData {
			t.Errorf("user data is %q", got)
		}
		meta := map[string]string{}
		if err := json.Unmarshal([]byte(s.Files[cloudinit.SeedDir+"/meta-data"]), &meta); err != nil || meta["instance-id"] != "id-1" || meta["local-hostname"] != "worker-1" || meta["provider_id"] != "idc://team/host-1" {
			t.Errorf("meta data is %v, %v", meta, err)
		}
		if got := s.Files[onworker.KubeletEnvironment]; got != "KUBELET_EXTRA_ARGS=--provider-id=idc://team/host-1\n" {
			t.Errorf("%s is %q", onworker.KubeletEnvironment, got)
		}
		ran := len(s.Ran)
		if progress, err := bootstrap.Run(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Done || s.Starts != 1 || len(s.Ran) > ran+2 {
			t.Errorf("once more it took %q", s.Ran[ran:])
		}
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Fatal(err)
		}
		s.ExpectPlain(before, "after the clean-up")
		if !slices.Contains(s.Mounts, "/data") {
			t.Error("a mount of the host's own is gone")
		}
		ran = len(s.Ran)
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil || len(s.Ran) != ran+2 {
			t.Errorf("once more: %v, %q", err, s.Ran[ran:])
		}
	})
}

func TestACleanUpThatIsCutGoesOn(t *testing.T) {
	hosttest.OnEach(t, func(t *testing.T, kind func(*testing.T) *hosttest.Simulated) {
		for cut := 1; ; cut++ {
			s := kind(t)
			before := s.Plain()
			h := hosts.New(s, "root")
			if _, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil {
				t.Fatal(err)
			}
			s.Ran, s.CutAfter = nil, cut
			if cleanup.Run(t.Context(), h, "id-1") == nil {
				if cut < 20 {
					t.Errorf("it took only %d commands", cut)
				}
				return
			}
			s.CutAfter = 0
			if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
				t.Errorf("cut after %q: %v", s.Ran[cut-1], err)
			}
			s.ExpectPlain(before, "cut after "+s.Ran[cut-1])
		}
	})
}

// ending is a host in whose visit the time ends after some commands.
type ending struct {
	*hosttest.Simulated
	after int
	end   context.CancelFunc
}

func (e *ending) Run(ctx context.Context, command ssh.Command) (ssh.Result, error) {
	result, err := e.Simulated.Run(ctx, command)
	if len(e.Ran) == e.after {
		e.end()
	}
	return result, err
}

// Between two steps of a clean-up nothing has failed.
func TestACleanUpWhoseTimeEndsIsNotTakenForDone(t *testing.T) {
	hosttest.OnEach(t, func(t *testing.T, kind func(*testing.T) *hosttest.Simulated) {
		for after := 1; ; after++ {
			s := kind(t)
			bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
			ctx, end := context.WithCancel(t.Context())
			s.Ran = nil
			err := cleanup.Run(ctx, hosts.New(&ending{s, after, end}, "admin"), "id-1")
			if err == nil && s.There(records.File) {
				t.Errorf("it is clean after %q", s.Ran[after-1])
			}
			end()
			if len(s.Ran) < after {
				return
			}
		}
	})
}

func TestAnotherMachinesHostIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		before := s.Plain()
		other := bootstraptest.Worker()
		other.Name, other.InstanceID = "worker-2", "id-2"
		var inUse *ownership.InUseError
		if _, err := bootstrap.Run(t.Context(), h, other); !errors.As(err, &inUse) || inUse.Record.Name != "worker-1" ||
			!strings.HasSuffix(err.Error(), "put back what is in /var/lib/kok-infrastructure/originals and remove /var/lib/kok-infrastructure on it") {
			t.Errorf("bootstrap: %v", err)
		}
		if err := cleanup.Run(t.Context(), h, "id-2"); !errors.As(err, &inUse) {
			t.Errorf("clean-up: %v", err)
		}
		facts, problem, err := probe.Run(t.Context(), h)
		if err != nil || problem != nil {
			t.Fatalf("probe: %v, %v", problem, err)
		}
		for instanceID, use := range map[string]ownership.Use{"": ownership.OfOthers, "id-2": ownership.OfOthers, "id-1": ownership.Ours} {
			if got := ownership.Judge(&facts.Usage, &ownership.Claimant{InstanceID: instanceID, TakeOver: "kubelet runs"}); got.Use != use {
				t.Errorf("for machine %q it is %+v", instanceID, got)
			}
		}
		if after := s.Plain(); after != before {
			t.Error("it was changed")
		}
	})
}

// A host that does not let us look is not clean.
func TestAHostWithoutSudoIsNeverTakenForClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := hosts.New(s, "admin")
		s.NoSudo = true
		if err := cleanup.Run(t.Context(), h, "id-1"); err == nil || !strings.Contains(err.Error(), "a password is required") {
			t.Errorf("clean-up: %v", err)
		}
		if progress, err := bootstrap.Run(t.Context(), h, bootstraptest.Worker()); err == nil || !strings.Contains(err.Error(), "a password is required") {
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
		"a seed":   {cloudinit.Dir, "after the clean-up there still is: file " + cloudinit.SeedDir},
		"a table":  {"ip6 kube-proxy", "after the clean-up there still is: nftables table ip6 kube-proxy"},
		"a rule":   {"iptables", "after the clean-up there still is: a node's rules in what iptables-save prints"},
		"a chain":  {"ip nat KUBE-SERVICES", "after the clean-up there still is: nftables chain ip nat KUBE-SERVICES"},
		"an image": {"sha256:0123", "after the clean-up there still is: image sha256:0123"},
		"a unit":   {"kubelet.service", "after the clean-up there still is: unit kubelet.service (active)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.New(t)
				if test.sticky == cloudinit.Dir {
					s.Remove(cloudinit.Dir)
				}
				h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
				s.Sticky[test.sticky] = true
				if name == "a chain" { // Nothing that the host has shows it, but nft.
					s.Chains = append(s.Chains, test.sticky)
				}
				var unclean *cleanup.UncleanError
				if err := cleanup.Run(t.Context(), h, "id-1"); !errors.As(err, &unclean) || unclean.Error() != test.want {
					t.Errorf("%v", err)
				}
				s.Sticky, s.Chains = map[string]bool{}, s.Chains[:1]
				if err := cleanup.Run(t.Context(), h, "id-1"); err != nil || s.There(records.Dir) {
					t.Errorf("a second one: %v", err)
				}
			})
		})
	}
}

// sudo looks up the name that the host has, with each command.
func TestAHostsNameCanBeLookedUpWhileItIsCleaned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		const rename = "hostname -- host-1"
		s.Answers[rename] = ssh.Result{ExitStatus: 3}
		if err := cleanup.Run(t.Context(), h, "id-1"); err == nil || s.Files["/etc/hosts"] != "127.0.1.1 worker-1\n" {
			t.Errorf("with its name as it is it has the line %q, %v", s.Files["/etc/hosts"], err)
		}
		delete(s.Answers, rename)
		s.Ran = nil
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Fatal(err)
		}
		if i := slices.Index(s.Ran, rename); i < 0 || !strings.HasSuffix(s.Ran[i+1], records.OriginalsDir+"/etc/hosts /etc/hosts") {
			t.Errorf("after its name changed it ran %q", s.Ran[max(i, 0)+1])
		}
	})
}

// A key that was taken back must not let anybody in again, and one that is needed must stay.
func TestKeysThatPeopleChangeMeanwhileStayAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		const file = "/home/admin/.ssh/authorized_keys"
		s.Files[file] = "# new\n" + strings.ReplaceAll(s.Files[file], hosttest.AdminKey, "AAAArotated")
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Fatal(err)
		}
		if want := "# new\nssh-ed25519 AAAArotated admin\n"; s.Files[file] != want {
			t.Errorf("%s is %q", file, s.Files[file])
		}
	})
}

// With an instance that is new to cloud-init at the next boot the host would get other SSH host keys.
func TestCloudInitRemembersTheHostsOwnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		if s.Files[cloudinit.Dir+"/data/instance-id"] != "" || s.Files[cloudinit.SeedDir+"/meta-data"] == "instance-id: ours" {
			t.Fatal("the machine has the host's own instance")
		}
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{
			cloudinit.Dir + "/data/instance-id": "ours", cloudinit.Dir + "/instance/sem/config_ssh": "done", cloudinit.SeedDir + "/meta-data": "instance-id: ours", cloudinit.SeedDir + "/user-data": "",
		} {
			if s.Files[file] != want {
				t.Errorf("%s is %q", file, s.Files[file])
			}
		}
	})
}

// Images that nobody knows the origin of stay: a site without a registry puts them there.
func TestOnlyImagesThatCameWithTheMachineGo(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*hosttest.Simulated)
		want string
	}{
		"a host with images": {func(*hosttest.Simulated) {}, "[registry.k8s.io/pause:3.10] active"},
		"containerd never ran before": {func(s *hosttest.Simulated) {
			s.Units[onworker.ContainerdUnit].Active, s.Images = "inactive", nil
			s.Remove(hosttest.ContainerdMetadata)
		}, "[] active"},
		"containerd does not run, but did":    {func(s *hosttest.Simulated) { s.Units[onworker.ContainerdUnit].Active = "inactive" }, "[registry.k8s.io/pause:3.10 registry.example.com/private/app:1 sha256:0123] active"},
		"the bootstrap data bring containerd": {func(s *hosttest.Simulated) { s.Remove("/usr/bin/ctr"); s.Remove("/usr/bin/containerd"); s.Images = nil }, "[] active"},
		"the bootstrap data bring ctr alone":  {func(s *hosttest.Simulated) { s.Remove("/usr/bin/ctr") }, "[registry.k8s.io/pause:3.10 registry.example.com/private/app:1 sha256:0123] active"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.New(t)
				test.edit(s)
				h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
				if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(s.Images, " ", s.Units[onworker.ContainerdUnit].Active); got != test.want {
					t.Errorf("there are %s", got)
				}
			})
		})
	}
}

// Without its record nobody knows what came with a machine.
func TestANodeWithoutARecordIsNotTakenForClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		s.Remove(records.Dir)
		for _, left := range []string{"file " + onworker.Kubeconfig + "; file " + onworker.SentinelFile, "file " + onworker.SentinelFile} {
			var unclean *cleanup.UncleanError
			want := "after the clean-up there still is: " + left + ", and " + records.File + ", which says what else came with the machine, is gone"
			if err := cleanup.Run(t.Context(), h, "id-1"); !errors.As(err, &unclean) || unclean.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			s.Remove(onworker.Kubeconfig)
		}
		s.Remove(path.Clean(onworker.SentinelDir))
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Errorf("put right: %v", err)
		}
	})
}

func TestWhatAHostHasInANodesFoldersIsNotPutBack(t *testing.T) {
	for name, older := range map[string]bool{"noted by this controller": false, "noted by an older one": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const own = "/etc/kubernetes/audit.yaml"
				s := hosttest.New(t)
				s.Files[own] = "ours"
				machine := bootstraptest.Worker()
				machine.UserData = []byte("#cloud-config\nwrite_files: [{path: " + own + "}, {path: /etc/motd}]\n")
				h := bootstraptest.Bootstrapped(t, s, machine)
				record, err := records.Read(t.Context(), h)
				if err != nil || slices.Contains(record.Replaced, own) || slices.Contains(record.Added, own) || s.There(records.OriginalsDir+own) {
					t.Errorf("%+v, %v", record, err)
				}
				if older {
					record.Replaced, s.Files[records.OriginalsDir+own] = append(record.Replaced, own), "ours"
					if err := record.Write(t.Context(), h); err != nil {
						t.Fatal(err)
					}
				}
				if err := cleanup.Run(t.Context(), h, "id-1"); err != nil || s.There(own) || s.Files["/etc/motd"] != "hello\n" {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// Volumes of the root disk have its device number: removing "on one file system" goes into them.
func TestAVolumeThatStaysMountedKeepsItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		const stays, other, data = "/var/lib/kubelet/pods/1/volumes/a b", "/var/lib/kubelet/pods/2/volumes/c", "/var/lib/kubelet/pods/1/volumes/a b/data"
		s.Mounts = slices.Insert(s.Mounts, 1, other)
		s.Files[data], s.Sticky[stays] = "precious", true
		err := cleanup.Run(t.Context(), h, "id-1")
		for _, want := range []string{"unmount volumes: umount --lazy -- " + stays, "remove a node's files: they all stay", stays + " is still mounted", "there still is: mount " + stays} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
		if s.Files[data] != "precious" {
			t.Error("the volume lost its data")
		}
		if slices.Contains(s.Mounts, other) {
			t.Error("the other volume is still mounted")
		}
		s.Sticky = map[string]bool{}
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Errorf("unmounted: %v", err)
		}
	})
}
