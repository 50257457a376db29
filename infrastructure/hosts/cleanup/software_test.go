package cleanup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap/bootstraptest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

func TestABareHostBecomesAMachineAndABareHostAgain(t *testing.T) {
	for name, test := range map[string]struct {
		bring func(*hosttest.Simulated)
		files string
		edit  func(*hosttest.Simulated)
	}{
		"by kok-software":                       {bring: (*hosttest.Simulated).BringSoftware},
		"by downloads":                          {bring: (*hosttest.Simulated).BringDownloads, files: hosttest.DownloadsWritten},
		"with a disk for images":                {bring: (*hosttest.Simulated).BringSoftware, edit: func(s *hosttest.Simulated) { s.Mounts = append(s.Mounts, hosttest.ContainerdDir) }},
		"with a setting for containerd already": {bring: (*hosttest.Simulated).BringSoftware, edit: func(s *hosttest.Simulated) { s.Files["/etc/containerd/certs.d/a/hosts.toml"] = "ours" }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.NewBare(t)
				s.Bring = test.bring
				if test.edit != nil {
					test.edit(s)
				}
				before := s.Plain()
				h := hosts.New(s, "admin")
				if _, problem, err := probe.Run(t.Context(), h); err != nil || problem != nil {
					t.Fatalf("probe: %v, %v", problem, err)
				}
				bootstraptest.Bootstrapped(t, s, bootstraptest.WorkerWriting(test.files))
				s.Mounts = append(s.Mounts, "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/1/shm")
				if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
					t.Fatal(err)
				}
				s.ExpectPlain(before, "after the clean-up")
			})
		})
	}
}

// What the next machine would find: a program that waits for ever, and a host that is never clean.
func TestSoftwareThatDoesNotWorkGoesToo(t *testing.T) {
	for name, state := range map[string]hosts.UnitState{
		"a containerd that starts again and again": {Loaded: true, Active: "activating", Sub: "auto-restart", Enabled: true},
		"a containerd that failed":                 {Loaded: true, Active: "failed", Enabled: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.NewBare(t)
				before := s.Plain()
				s.Succeed = false
				h := hosts.New(s, "admin")
				if progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Failed {
					t.Fatalf("%+v, %v", progress, err)
				}
				s.Units[onworker.ContainerdUnit] = &state
				for _, question := range []string{"containers", "images"} {
					s.Answers["ctr --namespace k8s.io "+question+" list --quiet"] = ssh.Result{ExitStatus: 1}
				}
				s.Answers["systemctl start containerd.service"] = ssh.Result{ExitStatus: 1}
				if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
					t.Fatal(err)
				}
				s.ExpectPlain(before, "after the clean-up")
			})
		})
	}
}

func TestSoftwareThatCannotBeRemovedIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*hosttest.Simulated)
		want []string
		// repair is what a person does.
		repair func(*hosttest.Simulated)
	}{
		"the program fails": {func(s *hosttest.Simulated) { s.Sticky[software.Program] = true },
			[]string{"remove the software of the machine: /opt/kok-software/bin/kok-software remove ended with status 1", "there still is: file /opt/kok-software"},
			func(s *hosttest.Simulated) { s.Sticky = map[string]bool{} }},
		"the program is gone": {func(s *hosttest.Simulated) { s.Remove(software.Program) },
			[]string{"remove the software of the machine: /opt/kok-software/", "the program /opt/kok-software/bin/kok-software, which alone knows what it changed on the host, is gone: put it back as docs/data-centre-hosts.md#clean-a-host-by-hand says"},
			func(s *hosttest.Simulated) { s.Files[software.Program] = "program" }},
		"containers stay": {func(s *hosttest.Simulated) {
			s.Answers["ctr --namespace k8s.io tasks delete --force 0123abc 4567def"] = ssh.Result{}
		},
			[]string{"remove the software of the machine: it stays, for without it these could not be ended: container 0123abc; container 4567def", "there still is: container 0123abc"},
			func(s *hosttest.Simulated) { s.Answers = map[string]ssh.Result{} }},
		"kubelet stays": {func(s *hosttest.Simulated) { s.Sticky[onworker.KubeletUnit] = true },
			[]string{"these could not be ended: unit kubelet.service (active)"},
			func(s *hosttest.Simulated) { s.Sticky = map[string]bool{} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.NewBare(t)
				before := s.Plain()
				h := bootstraptest.Bootstrapped(t, s, bootstraptest.BareWorker())
				test.edit(s)
				err := cleanup.Run(t.Context(), h, "id-1")
				for _, want := range test.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%q is not in: %v", want, err)
					}
				}
				if !s.There(hosttest.StateFile) || !s.There(records.File) || s.There(software.Program) == (name == "the program is gone") {
					t.Error("nobody can finish the clean-up any more")
				}
				test.repair(s)
				if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
					t.Errorf("put right: %v", err)
				}
				s.ExpectPlain(before, "after the clean-up")
			})
		})
	}
}

// Images that an older machine's folder has can be told from nothing without containerd.
func TestSoftwareStaysWhileItIsNeededForImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.NewBare(t)
		s.Files[hosttest.ContainerdMetadata] = "images"
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		const images = "ctr --namespace k8s.io images list --quiet"
		s.Answers[images] = ssh.Result{ExitStatus: 1}
		if err := cleanup.Run(t.Context(), h, "id-1"); err == nil || !strings.Contains(err.Error(), "it stays, for the pods' images could not be removed") || !s.There(software.Program) {
			t.Errorf("%v", err)
		}
		delete(s.Answers, images)
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil || s.There(software.Program) || !slices.ContainsFunc(s.Ran, func(c string) bool { return strings.Contains(c, "images remove") }) {
			t.Errorf("put right: %v", err)
		}
	})
}

// A download that ended early has changed nothing.
func TestAProgramThatWasNeverCompleteLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.NewBare(t)
		before := s.Plain()
		s.Succeed, s.Bring = false, func(s *hosttest.Simulated) {
			s.Files[software.Program+".part"], s.Files[software.ResultFile] = "prog", `{"reason": "SoftwareNotAvailable"}`
			s.Files[software.ResultFile+".part"] = ""
		}
		h := hosts.New(s, "admin")
		if progress, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Failed || progress.Software == nil {
			t.Fatalf("%+v, %v", progress, err)
		}
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Fatal(err)
		}
		s.ExpectPlain(before, "after the clean-up")
	})
}

// Without its record nobody knows which machine the software is for.
func TestSoftwareWithoutARecordIsNotTakenForAPlainHost(t *testing.T) {
	s := hosttest.NewBare(t)
	s.Files[software.Program] = "program"
	if err := cleanup.Run(t.Context(), hosts.New(s, "admin"), "id-1"); fmt.Sprint(err) != "after the clean-up there still is: file /opt/kok-software, and "+records.File+", which says what else came with the machine, is gone" {
		t.Errorf("%v", err)
	}
}

// A package stays, and with it a containerd that the next machine uses.
func TestAPackageOfContainerdKeepsNothingOfTheMachine(t *testing.T) {
	for name, tasks := range map[string][]string{"with pods": {"0123abc"}, "with containers that ended": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hosttest.NewBare(t)
				s.Bring = (*hosttest.Simulated).BringPackage
				machine := bootstraptest.Worker()
				machine.UserData = []byte("#cloud-config\npackages: [containerd]\n")
				h := bootstraptest.Bootstrapped(t, s, machine)
				s.Tasks = tasks
				if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
					t.Fatal(err)
				}
				if unit := s.Units[onworker.ContainerdUnit]; unit == nil || unit.Active != "active" || len(s.Images)+len(s.Tasks) > 0 || s.Files["/etc/containerd/config.toml"] != "packaged" {
					t.Errorf("%+v, images %q, containers %q", unit, s.Images, s.Tasks)
				}
			})
		})
	}
}
