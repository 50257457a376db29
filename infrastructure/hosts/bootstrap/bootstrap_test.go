package bootstrap_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap/bootstraptest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/redact"
)

// A program that is killed, or a connection that breaks, leaves the next one in the middle.
func TestABootstrapThatIsCutGoesOn(t *testing.T) {
	hosttest.OnEach(t, func(t *testing.T, kind func(*testing.T) *hosttest.Simulated) {
		for cut := 1; ; cut++ {
			s := kind(t)
			before := s.Plain()
			h := hosts.New(s, "admin")
			s.CutAfter = cut
			_, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker())
			if err == nil {
				if cut < 30 {
					t.Errorf("it took only %d commands", cut)
				}
				return
			}
			s.CutAfter = 0
			if cut%2 == 0 {
				if progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Done || s.Starts != 1 {
					t.Errorf("cut after %q: %+v, %v, cloud-init was started %d times", s.Ran[cut-1], progress, err, s.Starts)
				}
			}
			if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
				t.Errorf("cut after %q: %v", s.Ran[cut-1], err)
			}
			s.ExpectPlain(before, "cut after "+s.Ran[cut-1])
		}
	})
}

// The host loses its power after the seed and before the record of the start. The next boot runs cloud-init itself, and has no unit of ours.
func TestABootstrapGoesOnWhenTheHostWasRestarted(t *testing.T) {
	hosttest.OnEach(t, func(t *testing.T, kind func(*testing.T) *hosttest.Simulated) {
		restarts := 0
		for cut := 1; ; cut++ {
			s := kind(t)
			before := s.Plain()
			h := hosts.New(s, "admin")
			s.CutAfter = cut
			if _, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err == nil {
				break
			}
			s.CutAfter = 0
			if !strings.Contains(s.Files[records.File], `"seeded": true`) {
				continue
			}
			restarts++
			s.Restart()
			if progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Done || s.Starts > 1 {
				t.Errorf("restarted after %q: %+v, %v, cloud-init was started %d times", s.Ran[cut-1], progress, err, s.Starts)
			}
			if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
				t.Errorf("restarted after %q: %v", s.Ran[cut-1], err)
			}
			s.ExpectPlain(before, "restarted after "+s.Ran[cut-1])
		}
		if restarts < 5 {
			t.Errorf("it was restarted only %d times", restarts)
		}
	})
}

// A clean-up would remove only the link, and leave what is behind it.
func TestAHostWhoseFoldersAreLinksIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		before := s.Plain()
		h := hosts.New(s, "admin")
		s.Symlinks = map[string]string{"/etc/kubernetes": "/data/kubernetes"}
		_, err := bootstrap.Run(t.Context(), h, bootstraptest.Worker())
		var failed *bootstrap.ProblemError
		if !errors.As(err, &failed) || failed.Problem.Reason != probe.FolderIsLink || !strings.Contains(err.Error(), "mount the disk at /etc/kubernetes instead of the link") {
			t.Errorf("it says %v", err)
		}
		if s.Plain() != before {
			t.Error("it was changed")
		}
		s.Symlinks = nil
		if progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Done {
			t.Errorf("without the link: %+v, %v", progress, err)
		}
	})
}

// Each command is a session of SSH and a start of sudo, which takes a host longer than most commands themselves.
func TestABootstrapTakesFewCommands(t *testing.T) {
	s := hosttest.New(t)
	bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
	if most := 55; len(s.Ran) > most {
		t.Errorf("it took %d commands, more than %d:\n%s", len(s.Ran), most, strings.Join(s.Ran, "\n"))
	}
}

func TestAFailedBootstrapSaysWhyAndKeepsSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		s.Succeed = false
		h := hosts.New(s, "admin")
		for range 2 {
			progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker())
			if err != nil || progress.State != bootstrap.Failed || !strings.Contains(progress.Detail, "Runparts: 1 failures") {
				t.Errorf("%+v, %v", progress, err)
			}
			if want := "Cloud-init starts\ntoken: <redacted>\nit broke"; progress.Output != want {
				t.Errorf("the output is %q", progress.Output)
			}
		}
		// Its unit is gone after a reboot.
		unit := s.Units[cloudinit.Unit]
		delete(s.Units, cloudinit.Unit)
		if progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Failed {
			t.Errorf("after a reboot: %+v, %v", progress, err)
		}
		s.Units[cloudinit.Unit] = unit
		if s.Starts != 1 {
			t.Errorf("cloud-init was started %d times with the same data", s.Starts)
		}
		s.Succeed = true
		other := bootstraptest.Worker()
		other.UserData = append(other.UserData, "# another token\n"...)
		if progress, err := bootstraptest.UntilEnded(t.Context(), h, other); err != nil || progress.State != bootstrap.Done || s.Starts != 2 {
			t.Errorf("with other data: %+v, %v, cloud-init was started %d times", progress, err, s.Starts)
		}
		if progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Done || s.Starts != 2 {
			t.Errorf("what is done is done anew: %+v, %v", progress, err)
		}
	})
}

// What the first data changed would pass for the host's own otherwise, and stay.
func TestAHostIsCleanedBeforeItGetsOtherBootstrapData(t *testing.T) {
	hosttest.OnEach(t, func(t *testing.T, kind func(*testing.T) *hosttest.Simulated) {
		s := kind(t)
		before := s.Plain()
		h := hosts.New(s, "admin")
		s.Succeed = false
		if progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Failed {
			t.Fatalf("%+v, %v", progress, err)
		}
		s.Succeed = true
		other := bootstraptest.Worker()
		other.UserData = append(other.UserData, "# another token\n"...)
		if progress, err := bootstraptest.UntilEnded(t.Context(), h, other); err != nil || progress.State != bootstrap.Done {
			t.Fatalf("%+v, %v", progress, err)
		}
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Fatal(err)
		}
		s.ExpectPlain(before, "after the clean-up")
	})
}

// After a move to another management cluster a host is asked what it is; its bootstrap data may be gone by then.
func TestOnlyAHostThatIsNoMachineYetNeedsBootstrapData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := hosts.New(s, "admin")
		without := bootstraptest.Worker()
		without.UserData = nil
		before := s.Plain()
		if progress, err := bootstrap.Run(t.Context(), h, without); !errors.Is(err, bootstrap.ErrNoBootstrapData) || s.Plain() != before {
			t.Errorf("a plain host: %+v, %v", progress, err)
		}
		bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		if progress, err := bootstrap.Run(t.Context(), h, without); err != nil || progress.State != bootstrap.Done {
			t.Errorf("a machine: %+v, %v", progress, err)
		}
	})
}

// Keys go where the SSH server reads them; with a wrong guess they would stay after the machine.
func TestAnSSHServerWhoseSettingsCannotBeReadIsNotTakenForOneWithDefaults(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*hosttest.Simulated)
		want string
	}{
		"one with a mistake in its settings": {func(s *hosttest.Simulated) {
			s.Answers["sshd -T"] = ssh.Result{ExitStatus: 255, Stderr: []byte("sshd_config line 7: Bad configuration option\n")}
		}, "note what is on the host: read where the SSH server has authorized keys: sshd -T ended with status 255: sshd_config line 7: Bad configuration option"},
		"a host with another SSH server": {func(s *hosttest.Simulated) {
			s.Remove("/usr/bin/sshd")
			s.Answers["sshd -T"] = ssh.Result{ExitStatus: 127}
		}, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.New(t)
				test.edit(s)
				if _, err := bootstraptest.UntilEnded(t.Context(), hosts.New(s, "admin"), bootstraptest.Worker()); fmt.Sprint(err) != test.want {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// An instance ID is part of the provider ID, which goes into a file of kubelet's arguments.
func TestFinding11AMachineWhoseNamesAreMoreThanNamesIsRefused(t *testing.T) {
	for name, id := range map[string]string{
		"a line of its own": "1\nKUBELET_EXTRA_ARGS=--anonymous-auth=true", "another argument": "1 --anonymous-auth=true", "a quote": `1" --a="`, "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			s := hosttest.New(t)
			before := maps.Clone(s.Files)
			m := bootstraptest.Worker()
			m.InstanceID, m.ProviderID = id, "idc://team/host-1/"+id
			_, err := bootstrap.Run(t.Context(), hosts.New(s, "root"), m)
			if err == nil || !strings.Contains(err.Error(), "spec.") {
				t.Errorf("it became a machine: %v", err)
			}
			if !maps.Equal(before, s.Files) {
				t.Errorf("the host was changed")
			}
		})
	}
}

// What went wrong since the host was claimed has the same words as what a free host suffers from.
func TestABootstrapThatCannotGoOnSaysWhatIsWrongWithTheHost(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(*hosttest.Simulated)
		reason  string
		message string
	}{
		"no sudo": {func(s *hosttest.Simulated) { s.NoSudo = true }, probe.SudoMissing,
			"the user may not run commands as root without a password (sudo: a password is required); allow it"},
		"a full disk": {func(s *hosttest.Simulated) {
			s.Disks = map[string]string{"/var/lib/cloud": "0 4096 500000 1000000"}
			s.Answers["tar --extract --directory=/"] = ssh.Result{ExitStatus: 1, Stderr: []byte("No space left on device\n")}
		}, probe.DiskFull, "the file system of /var/lib/cloud has 0 MiB free, 1024 MiB are needed; make room on it (prepare the host for cloud-init: write /var/lib/cloud/seed/nocloud/meta-data, /var/lib/cloud/seed/nocloud/user-data, "},
		"something that we know nothing of": {func(s *hosttest.Simulated) {
			s.Answers["systemctl start --no-block "+cloudinit.Unit] = ssh.Result{ExitStatus: 4, Stderr: []byte("Failed to connect to bus\n")}
		}, "", "start cloud-init: systemctl start --no-block kok-cloud-init.service ended with status 4: Failed to connect to bus"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.New(t)
				h := hosts.New(s, "admin")
				test.edit(s)
				_, err := bootstrap.Run(t.Context(), h, bootstraptest.Worker())
				if err == nil || !strings.HasPrefix(err.Error(), test.message) {
					t.Errorf("it says %v", err)
				}
				var failed *bootstrap.ProblemError
				if errors.As(err, &failed) != (test.reason != "") || failed != nil && failed.Problem.Reason != test.reason {
					t.Errorf("it is %+v", failed)
				}
				s.NoSudo, s.Disks, s.Answers = false, nil, map[string]ssh.Result{}
				if progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Done {
					t.Errorf("put right: %+v, %v", progress, err)
				}
			})
		})
	}
}

func TestAFailedBootstrapSaysWhichSoftwareIsNotThere(t *testing.T) {
	result := func(r software.Result) string {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, test := range map[string]struct {
		file string
		want *software.Result
	}{
		"a reason": {result(software.Result{Reason: software.NoRoom, Component: "kubelet", Message: "/opt has 3 MiB free, 80 are needed. Make room.", Avoided: []string{"https://a.example: late"}}),
			&software.Result{Reason: software.NoRoom, Component: "kubelet", Message: "/opt has 3 MiB free, 80 are needed. Make room."}},
		"secrets, lines and what cannot be printed": {result(software.Result{Reason: software.NoSource, Message: "a\n\tb \x1b[0m\u202ec https://me:word@a.example/x password:\nword"}),
			&software.Result{Reason: software.NoSource, Message: "a b  [0m c https://" + redact.Mark + "@a.example/x password: " + redact.Mark}},
		"a component that is no text": {`{"reason": "Other\nWord", "component": 7}`, nil},
		"a new one":                   {`{"reason": "Other\nWord", "new": 7}`, &software.Result{Reason: "Other Word"}},
		"a success":                   {result(software.Result{}), nil},
		"half a file":                 {`{"reason": "Softw`, nil},
		"a file of null":              {"null", nil},
		"no file":                     {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.NewBare(t)
				s.Succeed = false
				s.Bring = func(s *hosttest.Simulated) { s.BringSoftware(); s.Files[software.ResultFile] = test.file }
				progress, err := bootstraptest.UntilEnded(t.Context(), hosts.New(s, "admin"), bootstraptest.Worker())
				if err != nil || progress.State != bootstrap.Failed {
					t.Fatalf("%+v, %v", progress, err)
				}
				if diff := cmp.Diff(test.want, progress.Software); diff != "" {
					t.Error(diff)
				}
				if (progress.Output == "") != (test.want != nil) {
					t.Errorf("the output is %q", progress.Output)
				}
			})
		})
	}
}

func TestAMachineThatIsDoneSaysWhichSourcesItAvoided(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"some":    {`{"avoided": ["https://me:word@a.example/x: it answers\n 404", "https://b.example: late"]}`, []string{"https://" + redact.Mark + "@a.example/x: it answers 404", "https://b.example: late"}},
		"many":    {`{"avoided": ["1", "2", "3", "4", "5", "6", "7"]}`, []string{"1", "2", "3", "4", "5", "and 2 more"}},
		"none":    {`{}`, nil},
		"no list": {`{"avoided": 7}`, nil},
		"no file": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.NewBare(t)
				s.Bring = func(s *hosttest.Simulated) { s.BringSoftware(); s.Files[software.ResultFile] = test.file }
				h := hosts.New(s, "admin")
				// Also of a host that is the machine since long, as after a move to another management cluster.
				for range 2 {
					progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker())
					if err != nil || progress.State != bootstrap.Done || !slices.Equal(progress.Avoided, test.want) {
						t.Errorf("%+v, %v, want %q", progress, err, test.want)
					}
				}
			})
		})
	}
}
