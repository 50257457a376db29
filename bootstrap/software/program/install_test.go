package program

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/kernel"
)

const optDir = "/opt/kok-software"

// document is what a worker needs, with programs of one version.
func (m *machine) document(version string) software.Document {
	containerd := m.publish(archive(m.t, map[string]string{"bin/containerd": "containerd " + version, "bin/shim-" + version: "shim", "README": "x"}))
	containerd.Unpack = []bootstrapv1.SoftwareUnpack{{From: "bin/", To: "/usr/local/bin/"}}
	kubelet := m.publish([]byte("kubelet " + version))
	kubelet.Unpack = []bootstrapv1.SoftwareUnpack{{To: "/usr/local/bin/kubelet"}}
	return software.Document{
		Name: "workers", Version: version,
		Components: []bootstrapv1.SoftwareComponent{{
			Name: "kubelet", After: []string{"containerd"},
			Variants: []bootstrapv1.SoftwareVariant{{Archive: kubelet}},
			Check:    bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckUnit, Unit: "kubelet.service"},
		}, {
			Name:     "containerd",
			Variants: []bootstrapv1.SoftwareVariant{{Archive: containerd}},
			Files:    []bootstrapv1.SoftwareFile{{Path: "/etc/containerd/config.toml", Content: ptr.To("version = 2 # " + version)}},
			Unit:     bootstrapv1.SoftwareUnit{Name: "containerd.service", Content: "# " + version + "\nExecStart=/usr/local/bin/containerd\n"},
			Check:    bootstrapv1.SoftwareCheck{Type: bootstrapv1.CheckUnit, Unit: "containerd.service"},
		}},
		Kernel: bootstrapv1.SoftwareKernel{Modules: []string{"overlay"}, Sysctls: map[string]string{"net.ipv4.ip_forward": "1"}},
	}
}

func (m *machine) mustInstall(document software.Document) {
	m.t.Helper()
	if err := m.install(document); err != nil {
		m.t.Fatalf("install: %v\n%s", err, m.log.String())
	}
}

// has wants paths of the machine to be links to files with a content, or files.
func (m *machine) has(want map[string]string) {
	m.t.Helper()
	got := m.snapshot()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		content := got[path]
		if _, target, link := strings.Cut(content, " /opt/kok-software/components/"); link {
			name, rest, _ := strings.Cut(target, "/current/")
			_, current, _ := strings.Cut(got[optDir+"/components/"+name+"/current"], " ")
			content = got[optDir+"/components/"+name+"/"+current+"/"+rest]
		}
		if _, content, _ = strings.Cut(content, " "); content != want[path] {
			m.t.Errorf("%s has %q, want %q", path, content, want[path])
		}
	}
}

func TestAnInstallMakesTheMachineAsTheDocumentSays(t *testing.T) {
	m := newMachine(t)
	m.write("/usr/local/bin/containerd", "of the distribution")
	m.mustInstall(m.document("v1"))
	m.has(map[string]string{
		"/usr/local/bin/containerd": "containerd v1", "/usr/local/bin/shim-v1": "shim", "/usr/local/bin/kubelet": "kubelet v1", "/etc/containerd/config.toml": "version = 2 # v1",
		"/etc/systemd/system/containerd.service": "# v1\nExecStart=/usr/local/bin/containerd\n", "/proc/sys/net/ipv4/ip_forward": "1\n",
		optDir + "/originals/usr/local/bin/containerd": "of the distribution",
	})
	if m.systemd.running["containerd.service"] != "containerd v1" || !m.systemd.enabled["containerd.service"] {
		t.Errorf("units: %+v", m.systemd)
	}
	if got := m.snapshot(); got[optDir+"/downloads"] != "" || got["/etc/modules-load.d/90-kok-software.conf"] == "" {
		t.Errorf("downloads: %q, modules: %q", got[optDir+"/downloads"], got["/etc/modules-load.d/90-kok-software.conf"])
	}
}

func TestASecondInstallChangesNothing(t *testing.T) {
	m := newMachine(t)
	m.mustInstall(m.document("v1"))
	before, writes, asked := m.snapshot(), m.writes, len(m.asked)
	m.mustInstall(m.document("v1"))
	if diff := cmp.Diff(before, m.snapshot()); diff != "" {
		t.Error(diff)
	}
	if m.writes != writes || len(m.asked) != asked {
		t.Errorf("%d writes and %d downloads more", m.writes-writes, len(m.asked)-asked)
	}
}

func TestAnUpgradeKeepsTheRevisionBefore(t *testing.T) {
	m := newMachine(t)
	for _, version := range []string{"v1", "v2", "v3"} {
		m.mustInstall(m.document(version))
		if err := m.program().Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.has(map[string]string{"/usr/local/bin/containerd": "containerd v3", "/usr/local/bin/kubelet": "kubelet v3"})
	got := m.snapshot()
	if got["/usr/local/bin/shim-v1"] != "" || got["/usr/local/bin/shim-v2"] != "" {
		t.Error("files of older revisions are left")
	}
	contents := slices.Collect(maps.Values(got))
	for content, kept := range map[string]bool{"kubelet v1": false, "kubelet v2": true, "kubelet v3": true} {
		if slices.Contains(contents, "-rwxr-xr-x "+content) != kept {
			t.Errorf("%s is kept: %t", content, !kept)
		}
	}
}

func TestARevisionThatDoesNotWorkIsTakenBack(t *testing.T) {
	m := newMachine(t)
	m.mustInstall(m.document("v1"))
	before := m.snapshot(optDir)
	m.broken["containerd v2"] = true
	err := m.install(m.document("v2"))
	result := software.ResultOf(err)
	if result.Reason != software.NotWorking || result.Component != "containerd" || !strings.Contains(result.Message, "comes back: the check says that it is broken; the last that containerd.service said: it says https://host/") {
		t.Errorf("%+v", result)
	}
	if diff := cmp.Diff(before, m.snapshot(optDir)); diff != "" {
		t.Errorf("the machine is not as before:\n%s", diff)
	}
	restarts, asked := m.systemd.restarts, len(m.asked)
	m.broken = map[string]bool{}
	if err := m.install(m.document("v2")); err == nil || !strings.Contains(err.Error(), "--retry-failed") {
		t.Errorf("again: %v", err)
	}
	if m.systemd.restarts != restarts || len(m.asked) != asked {
		t.Error("it was tried again")
	}
	p := m.program()
	p.RetryFailed = true
	if err := p.Install(t.Context(), func() (software.Document, error) { return m.document("v2"), nil }); err != nil {
		t.Fatal(err)
	}
	m.mustInstall(m.document("v2"))
	m.has(map[string]string{"/usr/local/bin/containerd": "containerd v2", "/usr/local/bin/kubelet": "kubelet v2"})
}

func TestAFirstInstallThatFailsLeavesTheMachineAsItWas(t *testing.T) {
	for name, breaks := range map[string]func(m *machine, d *software.Document){
		"a check fails": func(m *machine, _ *software.Document) { m.broken["containerd v1"] = true },
		"an archive lacks a file": func(_ *machine, d *software.Document) {
			d.Components[0].Variants[0].Archive.Unpack[0].From = "bin/none"
		},
		"a server lacks a file":  func(m *machine, d *software.Document) { delete(m.files, d.Components[0].Variants[0].Archive.SHA256) },
		"a package is not found": func(_ *machine, d *software.Document) { d.Components[0].Variants[0] = nowhere },
		"no variant is for the machine": func(_ *machine, d *software.Document) {
			d.Components[0].Variants[0].Match.OS = []string{"fedora"}
		},
		"a path is a folder of the machine": func(_ *machine, d *software.Document) {
			d.Components[0].Variants[0].Archive.Unpack[0].To = "/usr/local/bin"
		},
		"an archive has a file of the bootstrap data": func(m *machine, d *software.Document) {
			d.Components[0].Variants[0].Archive = m.publish(archive(m.t, map[string]string{"etc/kok/software.json": "{}"}))
			d.Components[0].Variants[0].Archive.Unpack = []bootstrapv1.SoftwareUnpack{{From: "etc/", To: "/etc/"}}
		},
		"an archive has the unit of kubelet": func(m *machine, d *software.Document) {
			d.Components[0].Variants[0].Archive = m.publish(archive(m.t, map[string]string{"units/kubelet.service": "[Service]"}))
			d.Components[0].Variants[0].Archive.Unpack = []bootstrapv1.SoftwareUnpack{{From: "units/", To: "/etc/systemd/system/"}}
		},
		"two components have the same path": func(_ *machine, d *software.Document) {
			d.Components[0].Variants[0].Archive.Unpack[0].To = "/usr/local/bin/containerd"
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write("/usr/local/bin/containerd", "of the distribution")
			m.write("/usr/lib/systemd/system/containerd.service", "ExecStart=/usr/local/bin/containerd")
			m.systemd.enabled["containerd.service"], m.systemd.running["containerd.service"] = true, "of the distribution"
			before := m.snapshot(optDir, "/opt")
			document := m.document("v1")
			breaks(m, &document)
			if err := m.install(document); err == nil {
				t.Fatal("it did not fail")
			}
			if diff := cmp.Diff(before, m.snapshot(optDir, "/opt")); diff != "" {
				t.Errorf("the machine is not as before:\n%s\n%s", diff, m.log.String())
			}
			if result := m.snapshot()[optDir+"/result.json"]; !strings.Contains(result, `"reason"`) {
				t.Errorf("the result is %q", result)
			}
		})
	}
}

var nowhere = bootstrapv1.SoftwareVariant{Packages: []bootstrapv1.Package{{Name: "nowhere"}}}

func TestRemoveMakesTheMachineAsItWas(t *testing.T) {
	m := newMachine(t)
	m.write("/usr/local/bin/containerd", "of the distribution")
	m.write("/usr/lib/systemd/system/containerd.service", "ExecStart=/usr/local/bin/containerd")
	m.systemd.enabled["containerd.service"], m.systemd.running["containerd.service"] = true, "of the distribution"
	before := m.snapshot("/opt")
	m.mustInstall(m.document("v1"))
	m.mustInstall(m.document("v2"))
	for range 2 {
		if err := m.program().Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, m.snapshot("/opt")); diff != "" {
			t.Errorf("the machine is not as before:\n%s", diff)
		}
	}
	if got := m.snapshot(); got[optDir] != "" {
		t.Error("the program's folder is left")
	}
}

func TestASysctlThatCannotBeGivenBackHoldsNoRemovalUp(t *testing.T) {
	for name, breaks := range map[string]func(m *machine){
		"it is gone": func(m *machine) {
			if err := os.Remove(m.root + "/proc/sys/net/ipv4/ip_forward"); err != nil {
				m.t.Fatal(err)
			}
		},
		"it goes one way": func(m *machine) {
			path := m.root + "/proc/sys/net/ipv4/ip_forward"
			if err := os.Remove(path); err != nil {
				m.t.Fatal(err)
			}
			if err := os.Symlink("/proc/self/stat", path); err != nil { // It is read, and nobody may write it.
				m.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.mustInstall(m.document("v1"))
			breaks(m)
			if err := m.program().Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := m.snapshot(); left[optDir] != "" || left[kernel.SysctlsFile] != "" {
				t.Error("something of the program is left")
			}
		})
	}
}

func TestAComponentThatTheDocumentHasNoMoreIsRemoved(t *testing.T) {
	m := newMachine(t)
	m.mustInstall(m.document("v1"))
	document := m.document("v1")
	document.Components = document.Components[1:]
	m.mustInstall(document)
	if got := m.snapshot(); got["/usr/local/bin/kubelet"] != "" || got[optDir+"/components/kubelet"] != "" {
		t.Error("kubelet is left")
	}
	m.has(map[string]string{"/usr/local/bin/containerd": "containerd v1"})
}

func TestAComponentWithoutUnitIsTakenBackByACheckAtTheEnd(t *testing.T) {
	m := newMachine(t)
	m.write("/etc/systemd/system/kubelet.service", "ExecStart=/usr/local/bin/kubelet")
	m.mustInstall(m.document("v1"))
	if err := m.systemd.Restart(t.Context(), "kubelet.service"); err != nil {
		t.Fatal(err)
	}
	if err := m.program().Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.mustInstall(m.document("v2"))
	m.broken["kubelet v2"] = true
	if err := m.systemd.Restart(t.Context(), "kubelet.service"); err != nil {
		t.Fatal(err)
	}
	err := m.program().Check(t.Context())
	if problem := (*software.Problem)(nil); !errors.As(err, &problem) || problem.Reason != software.NotWorking || problem.Component != "kubelet" {
		t.Errorf("%v", err)
	}
	m.has(map[string]string{"/usr/local/bin/kubelet": "kubelet v1", "/usr/local/bin/containerd": "containerd v2"})
	if m.systemd.running["kubelet.service"] != "kubelet v1" {
		t.Errorf("kubelet.service runs %q", m.systemd.running["kubelet.service"])
	}
	if err := m.install(m.document("v2")); software.ResultOf(err).Reason != software.NotWorking {
		t.Errorf("again: %v", err)
	}
}
