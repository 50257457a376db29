package hosts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// newBare is a host with nothing but what the probe wants, for which kok-software brings the rest.
func newBare(t *testing.T) *simulated {
	s := newSimulated(t)
	for _, file := range []string{"/usr/bin/ctr", "/usr/bin/containerd", containerdDir} {
		s.remove(file)
	}
	delete(s.units, containerdUnit)
	s.images, s.containerd, s.bare, s.bring = nil, "", true, (*simulated).bringSoftware
	return s
}

// bareWorker is a machine whose bootstrap data fetch kok-software like other downloads.
func bareWorker() Machine {
	machine := worker()
	machine.UserData = []byte(strings.Replace(userData, "write_files:\n", "write_files:\n- path: "+onworker.DownloadsFile+
		"\n  content: '[\""+software.Program+"\", \""+software.Program+".part\"]'\n", 1))
	return machine
}

// stateFile is what kok-software knows of what it changed.
var stateFile = softwareDir + "/state.json"

// softwareFiles are what kok-software puts on a bare host.
var softwareFiles = []string{
	stateFile, software.ResultFile, softwareDir + "/containerd/0123/bin/containerd",
	"/usr/local/bin/containerd", "/usr/local/bin/ctr", "/etc/systemd/system/containerd.service", "/etc/containerd/config.toml", "/opt/cni/bin/bridge",
}

func (s *simulated) bringSoftware() {
	s.files[software.Program] = "program"
	for _, file := range softwareFiles {
		s.files[file] = "{}"
	}
	s.startNewContainerd()
}

// startNewContainerd starts a containerd that has never run on the host.
func (s *simulated) startNewContainerd() {
	s.units[containerdUnit] = &unitState{loaded: true, active: "active", enabled: true}
	s.files[containerdMetadata], s.files["/run/containerd/containerd.sock"], s.files["/opt/containerd/lib/a"] = "images", "", ""
}

// kokSoftware is the program, which may fail.
func (s *simulated) kokSoftware(args []string) (string, int) {
	if !slices.Equal(args, []string{"remove"}) {
		s.t.Errorf("kok-software knows no %q", args)
	}
	if kubelet := s.units[kubeletUnit]; len(s.tasks) > 0 || kubelet != nil && kubelet.runs() {
		s.t.Errorf("kubelet's programs go while it runs, or containers do: %+v, %q", kubelet, s.tasks)
	}
	if s.sticky[software.Program] {
		return "", 1
	}
	for _, file := range softwareFiles {
		s.remove(file)
	}
	s.remove(softwareDir)
	delete(s.units, containerdUnit)
	s.containerd = ""
	return "", 0
}

// bringDownloads is what software.downloads of a KOKConfig do.
func (s *simulated) bringDownloads() {
	s.files["/usr/local/bin/containerd"], s.files["/usr/local/bin/ctr"], s.files["/etc/systemd/system/containerd.service"] = "theirs", "theirs", "theirs"
	s.startNewContainerd()
}

const downloadsData = `#cloud-config
write_files:
- path: /etc/systemd/system/containerd.service
- path: ` + onworker.DownloadsFile + `
  content: '["/usr/local/bin/containerd", "/usr/local/bin/ctr"]'
`

// bringPackage is what a package of containerd does.
func (s *simulated) bringPackage() {
	s.files["/usr/bin/containerd"], s.files["/usr/bin/ctr"], s.files["/etc/containerd/config.toml"] = "packaged", "packaged", "packaged"
	s.startNewContainerd()
}

func TestABareHostBecomesAMachineAndABareHostAgain(t *testing.T) {
	for name, test := range map[string]struct {
		bring func(*simulated)
		data  string
		edit  func(*simulated)
	}{
		"by kok-software":                       {bring: (*simulated).bringSoftware},
		"by downloads":                          {bring: (*simulated).bringDownloads, data: strings.TrimPrefix(downloadsData, "#cloud-config\nwrite_files:\n")},
		"with a disk for images":                {bring: (*simulated).bringSoftware, edit: func(s *simulated) { s.mounts = append(s.mounts, containerdDir) }},
		"with a setting for containerd already": {bring: (*simulated).bringSoftware, edit: func(s *simulated) { s.files["/etc/containerd/certs.d/a/hosts.toml"] = "ours" }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBare(t)
				s.bring = test.bring
				if test.edit != nil {
					test.edit(s)
				}
				before := s.plain()
				h := New(s, "admin")
				if _, problem, err := h.Probe(t.Context()); err != nil || problem != nil {
					t.Fatalf("probe: %v, %v", problem, err)
				}
				machine := worker()
				machine.UserData = []byte(strings.Replace(userData, "write_files:\n", "write_files:\n"+test.data, 1))
				if progress, err := untilEnded(t.Context(), h, machine); err != nil || progress.State != Done {
					t.Fatalf("%+v, %v", progress, err)
				}
				s.mounts = append(s.mounts, "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/1/shm")
				if err := h.CleanUp(t.Context(), "id-1"); err != nil {
					t.Fatal(err)
				}
				if after := s.plain(); after != before {
					t.Errorf("the host was\n%s\nand is\n%s", before, after)
				}
			})
		})
	}
}

// What the next machine would find: a program that waits for ever, and a host that is never clean.
func TestSoftwareThatDoesNotWorkGoesToo(t *testing.T) {
	for name, state := range map[string]unitState{
		"a containerd that starts again and again": {loaded: true, active: "activating", sub: "auto-restart", enabled: true},
		"a containerd that failed":                 {loaded: true, active: "failed", enabled: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBare(t)
				before := s.plain()
				s.succeed = false
				h := New(s, "admin")
				if progress, err := untilEnded(t.Context(), h, worker()); err != nil || progress.State != Failed {
					t.Fatalf("%+v, %v", progress, err)
				}
				s.units[containerdUnit] = &state
				for _, question := range []string{"containers", "images"} {
					s.answers["ctr --namespace k8s.io "+question+" list --quiet"] = ssh.Result{ExitStatus: 1}
				}
				s.answers["systemctl start containerd.service"] = ssh.Result{ExitStatus: 1}
				if err := h.CleanUp(t.Context(), "id-1"); err != nil {
					t.Fatal(err)
				}
				if after := s.plain(); after != before {
					t.Errorf("the host was\n%s\nand is\n%s", before, after)
				}
			})
		})
	}
}

func TestSoftwareThatCannotBeRemovedIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*simulated)
		want []string
		// repair is what a person does.
		repair func(*simulated)
	}{
		"the program fails": {func(s *simulated) { s.sticky[software.Program] = true },
			[]string{"remove the software of the machine: /opt/kok-software/bin/kok-software remove ended with status 1", "there still is: file /opt/kok-software"},
			func(s *simulated) { s.sticky = map[string]bool{} }},
		"the program is gone": {func(s *simulated) { s.remove(software.Program) },
			[]string{"remove the software of the machine: /opt/kok-software/", "the program /opt/kok-software/bin/kok-software, which alone knows what it changed on the host, is gone: put it back as docs/data-centre-hosts.md#clean-a-host-by-hand says"},
			func(s *simulated) { s.files[software.Program] = "program" }},
		"containers stay": {func(s *simulated) {
			s.answers["ctr --namespace k8s.io tasks delete --force 0123abc 4567def"] = ssh.Result{}
		},
			[]string{"remove the software of the machine: it stays, for without it these could not be ended: container 0123abc; container 4567def", "there still is: container 0123abc"},
			func(s *simulated) { s.answers = map[string]ssh.Result{} }},
		"kubelet stays": {func(s *simulated) { s.sticky[kubeletUnit] = true },
			[]string{"these could not be ended: unit kubelet.service (active)"},
			func(s *simulated) { s.sticky = map[string]bool{} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBare(t)
				before := s.plain()
				h := New(s, "admin")
				if _, err := untilEnded(t.Context(), h, bareWorker()); err != nil {
					t.Fatal(err)
				}
				test.edit(s)
				err := h.CleanUp(t.Context(), "id-1")
				for _, want := range test.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%q is not in: %v", want, err)
					}
				}
				if !s.there(stateFile) || !s.there(recordFile) || s.there(software.Program) == (name == "the program is gone") {
					t.Error("nobody can finish the clean-up any more")
				}
				test.repair(s)
				if err := h.CleanUp(t.Context(), "id-1"); err != nil {
					t.Errorf("put right: %v", err)
				}
				if after := s.plain(); after != before {
					t.Errorf("the host was\n%s\nand is\n%s", before, after)
				}
			})
		})
	}
}

// Images that an older machine's folder has can be told from nothing without containerd.
func TestSoftwareStaysWhileItIsNeededForImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBare(t)
		s.files[containerdMetadata] = "images"
		h := New(s, "admin")
		if _, err := untilEnded(t.Context(), h, worker()); err != nil {
			t.Fatal(err)
		}
		const images = "ctr --namespace k8s.io images list --quiet"
		s.answers[images] = ssh.Result{ExitStatus: 1}
		if err := h.CleanUp(t.Context(), "id-1"); err == nil || !strings.Contains(err.Error(), "it stays, for the pods' images could not be removed") || !s.there(software.Program) {
			t.Errorf("%v", err)
		}
		delete(s.answers, images)
		if err := h.CleanUp(t.Context(), "id-1"); err != nil || s.there(software.Program) || !slices.ContainsFunc(s.ran, func(c string) bool { return strings.Contains(c, "images remove") }) {
			t.Errorf("put right: %v", err)
		}
	})
}

// A download that ended early has changed nothing.
func TestAProgramThatWasNeverCompleteLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBare(t)
		before := s.plain()
		s.succeed, s.bring = false, func(s *simulated) {
			s.files[software.Program+".part"], s.files[software.ResultFile] = "prog", `{"reason": "SoftwareNotAvailable"}`
			s.files[software.ResultFile+".part"] = ""
		}
		h := New(s, "admin")
		if progress, err := untilEnded(t.Context(), h, worker()); err != nil || progress.State != Failed || progress.Software == nil {
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
			&software.Result{Reason: software.NoSource, Message: "a b  [0m c https://" + Redacted + "@a.example/x password: " + Redacted}},
		"a component that is no text": {`{"reason": "Other\nWord", "component": 7}`, nil},
		"a new one":                   {`{"reason": "Other\nWord", "new": 7}`, &software.Result{Reason: "Other Word"}},
		"a success":                   {result(software.Result{}), nil},
		"half a file":                 {`{"reason": "Softw`, nil},
		"a file of null":              {"null", nil},
		"no file":                     {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBare(t)
				s.succeed = false
				s.bring = func(s *simulated) { s.bringSoftware(); s.files[software.ResultFile] = test.file }
				progress, err := untilEnded(t.Context(), New(s, "admin"), worker())
				if err != nil || progress.State != Failed {
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
		"some":    {`{"avoided": ["https://me:word@a.example/x: it answers\n 404", "https://b.example: late"]}`, []string{"https://" + Redacted + "@a.example/x: it answers 404", "https://b.example: late"}},
		"many":    {`{"avoided": ["1", "2", "3", "4", "5", "6", "7"]}`, []string{"1", "2", "3", "4", "5", "and 2 more"}},
		"none":    {`{}`, nil},
		"no list": {`{"avoided": 7}`, nil},
		"no file": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBare(t)
				s.bring = func(s *simulated) { s.bringSoftware(); s.files[software.ResultFile] = test.file }
				h := New(s, "admin")
				// Also of a host that is the machine since long, as after a move to another management cluster.
				for range 2 {
					progress, err := untilEnded(t.Context(), h, worker())
					if err != nil || progress.State != Done || !slices.Equal(progress.Avoided, test.want) {
						t.Errorf("%+v, %v, want %q", progress, err, test.want)
					}
				}
			})
		})
	}
}

func TestWhatAHostSaysOfItsSoftwareIsBounded(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	text, err := json.Marshal(software.Result{Reason: software.Reason(long), Component: long, Message: long})
	if err != nil {
		t.Fatal(err)
	}
	got := problemIn(text)
	for _, said := range []string{string(got.Reason), got.Component, got.Message} {
		if len(said) > maxLine+3 || !utf8.ValidString(said) || !strings.HasSuffix(said, "é...") {
			t.Errorf("%d bytes: %q", len(said), said)
		}
	}
}

// Without its record nobody knows which machine the software is for.
func TestSoftwareWithoutARecordIsNotTakenForAPlainHost(t *testing.T) {
	s := newBare(t)
	s.files[software.Program] = "program"
	if err := New(s, "admin").CleanUp(t.Context(), "id-1"); fmt.Sprint(err) != "after the clean-up there still is: file /opt/kok-software, and "+recordFile+", which says what else came with the machine, is gone" {
		t.Errorf("%v", err)
	}
}
