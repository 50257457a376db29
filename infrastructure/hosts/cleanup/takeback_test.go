package cleanup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap/bootstraptest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

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
