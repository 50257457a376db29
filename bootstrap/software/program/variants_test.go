package program

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// driver is a document with packages of a repository, and with a unit of a name.
func driver(version, unit string) software.Document {
	return software.Document{Name: "gpu", Version: "v1", Components: []bootstrapv1.SoftwareComponent{{
		Name: "driver",
		Variants: []bootstrapv1.SoftwareVariant{{
			Packages:     []bootstrapv1.Package{{Name: "driver", Version: version}},
			Repositories: []bootstrapv1.PackageRepository{{Name: "gpu", Source: "deb https://gpu /", Key: "KEY"}},
		}},
		Files: []bootstrapv1.SoftwareFile{{Path: "/etc/driver/conf", Content: ptr.To("x"), Mode: "0600"}},
		Unit:  bootstrapv1.SoftwareUnit{Name: unit, Content: "ExecStart=/etc/driver/conf"},
	}}}
}

func TestPackagesAreInstalledWithTheirRepositoryAndStay(t *testing.T) {
	m := newMachine(t)
	before := m.snapshot("/opt")
	m.mustInstall(driver("1", "driver.service"))
	m.has(map[string]string{
		"/etc/apt/sources.list.d/gpu.list":       "deb [signed-by=/etc/apt/keyrings/kok-software-gpu.asc] https://gpu /\n",
		"/etc/apt/keyrings/kok-software-gpu.asc": "KEY\n",
		"/etc/driver/conf":                       "x",
	})
	if m.packages["driver"] != "1" || m.systemd.running["driver.service"] != "x" {
		t.Errorf("packages: %v, units: %v", m.packages, m.systemd.running)
	}
	writes := m.writes
	m.mustInstall(driver("1", "driver.service"))
	if m.writes != writes {
		t.Errorf("a second install wrote %d times", m.writes-writes)
	}
	m.packages["driver"] = "0"
	m.mustInstall(driver("1", "driver.service"))
	if m.packages["driver"] != "1" {
		t.Error("a package in another version is not installed again")
	}
	if err := m.program().Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, m.snapshot("/opt")); diff != "" || m.packages["driver"] != "1" {
		t.Errorf("packages: %v; the machine is not as before:\n%s", m.packages, diff)
	}
}

func TestAUnitWithAnotherNameTakesThePlaceOfTheOneBefore(t *testing.T) {
	m := newMachine(t)
	m.mustInstall(driver("1", "old.service"))
	m.mustInstall(driver("2", "new.service"))
	got := m.snapshot()
	if got["/etc/systemd/system/old.service"] != "" || got["enabled old.service"] != "" || got["running old.service"] != "" {
		t.Error("the unit before is left")
	}
	if got["enabled new.service"] == "" || got["running new.service"] == "" {
		t.Error("the unit does not run")
	}
}

func TestWhatSomebodyBrokeIsMended(t *testing.T) {
	for name, breaks := range map[string]func(m *machine){
		"a file that was replaced": func(m *machine) { m.write("/etc/systemd/system/driver.service", "ExecStart=/bin/evil") },
		"a unit that was stopped":  func(m *machine) { _ = m.systemd.Stop(t.Context(), "driver.service") },
		"a unit that was disabled": func(m *machine) { _ = m.systemd.Disable(t.Context(), "driver.service") },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.mustInstall(driver("1", "driver.service"))
			before := m.snapshot()
			breaks(m)
			m.mustInstall(driver("1", "driver.service"))
			if diff := cmp.Diff(before, m.snapshot()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
