//go:build root

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

const (
	installedProgram  = "/usr/bin/" + balancer
	installedUnit     = "/usr/lib/systemd/system/" + balancer + ".service"
	installedUserUnit = "/usr/lib/systemd/user/" + balancer + "@.service"
	// enabledUnit is the link that systemctl enable makes.
	enabledUnit = "/etc/systemd/system/multi-user.target.wants/" + balancer + ".service"
	// configuration and certificates are those of the machine: no package may take them away.
	configuration = "/etc/" + balancer + "/config.yaml"
	certificates  = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

// machineNames are how packages name this machine's architecture.
var machineNames = map[string]struct{ deb, rpm string }{"amd64": {"amd64", "x86_64"}, "arm64": {"arm64", "aarch64"}}

// machine is a root file system that packages are installed into.
type machine string

func (m machine) path(file string) string { return filepath.Join(string(m), file) }

func (m machine) has(t *testing.T, want bool, files ...string) {
	t.Helper()
	for _, file := range files {
		if _, err := os.Lstat(m.path(file)); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", file, err == nil, want)
		}
	}
}

func (m machine) put(t *testing.T, file, content string) {
	t.Helper()
	if err := writeFile(m.path(file), []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func (m machine) read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(m.path(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// run runs a program of the machine, in its root. It has to succeed.
func (m machine) run(t *testing.T, argv ...string) string {
	t.Helper()
	return output(t, "systemd-nspawn", append([]string{
		"--quiet", "--directory=" + string(m), "--register=no", "--keep-unit", "--pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
	}, argv...)...)
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes")
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, said)
	}
	return string(said)
}

// published is the load balancer of a version with its packages for this machine, and the folder that they are in.
func published(t *testing.T, packager, version string) string {
	t.Helper()
	r := release{
		root: "../..", out: t.TempDir(), version: version, packager: packager, made: time.Unix(1e9, 0),
		linkerFlags: "-s -w -X github.com/kube-on-kube/cluster-api-provider-kok/internal/version.gitVersion=" + version,
	}
	program := filepath.Join(t.TempDir(), balancer)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", r.linkerFlags, "-o", program, "./"+balancerFolder)
	build.Dir, build.Stderr = r.root, os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	if err := r.writeBalancer(t.Context(), []binary{{balancer, "linux", runtime.GOARCH, program}}); err != nil {
		t.Fatal(err)
	}
	return r.out
}

// debianMachine is a Debian system as the lab's hosts run it, which may be written to.
func debianMachine(t *testing.T) machine {
	t.Helper()
	cache, err := artifacts.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	system, err := artifacts.EnsureDebian(t.Context(), cache, func(step string) { t.Log(step) })
	if err != nil {
		t.Fatal(err)
	}
	m := machine(filepath.Join(t.TempDir(), "debian"))
	output(t, "cp", "--archive", "--reflink=auto", system, string(m))
	return m
}

func TestThePackagesAreInstalled(t *testing.T) {
	sample.OneIn(t, 4, "it installs packages on two distributions, for minutes")
	packager := packages(t)
	old, newer := published(t, packager, "v0.2.0"), published(t, packager, "v0.3.0")
	names := machineNames[runtime.GOARCH]
	m := debianMachine(t)
	t.Run("by dpkg", func(t *testing.T) {
		install := func(folder, version string) {
			m.put(t, "/root/package.deb", string(readFile(t, filepath.Join(folder, balancer+"_"+version+"-1_"+names.deb+".deb"))))
			m.run(t, "dpkg", "--install", "/root/package.deb")
		}
		checkLife(t, m, func() { install(old, "0.2.0") }, func() { install(newer, "0.3.0") }, func() { m.run(t, "dpkg", "--purge", balancer) })
	})
	t.Run("by rpm", func(t *testing.T) {
		file := func(folder, version string) string {
			return filepath.Join(folder, balancer+"-"+version+"-1."+names.rpm+".rpm")
		}
		checkRPM(t, file(old, "0.2.0"))
		rpm := func(args ...string) { output(t, "rpm", append([]string{"--root", string(m), "--nodeps"}, args...)...) }
		checkLife(t, m, func() { rpm("--install", file(old, "0.2.0")) }, func() { rpm("--upgrade", file(newer, "0.3.0")) }, func() { rpm("--erase", balancer) })
	})
}

// checkLife installs the package, upgrades it and removes it.
func checkLife(t *testing.T, m machine, install, upgrade, remove func()) {
	users := m.read(t, "/etc/passwd")
	install()
	if said := m.run(t, installedProgram, "--version"); !strings.Contains(said, "v0.2.0") {
		t.Errorf("it says %q", said)
	}
	checkUnit(t, m)
	if now := m.read(t, "/etc/passwd"); now != users || !strings.Contains(m.read(t, installedUnit), "\nDynamicUser=yes\n") {
		t.Errorf("systemd is not to make the unit's user, or the package makes one: %s", now)
	}
	m.put(t, configuration, "of this machine")
	m.put(t, certificates, "of kubelet")
	m.run(t, "systemctl", "enable", balancer+".service")

	upgrade()
	if said := m.run(t, installedProgram, "--version"); !strings.Contains(said, "v0.3.0") {
		t.Errorf("after the upgrade it says %q", said)
	}
	m.has(t, true, enabledUnit)
	kept := func() {
		t.Helper()
		if m.read(t, configuration) != "of this machine" || m.read(t, certificates) != "of kubelet" {
			t.Error("files of the machine are others")
		}
	}
	kept()

	remove()
	m.has(t, false, installedProgram, installedUnit, installedUserUnit)
	kept()
}

// checkUnit has systemd say what is wrong with the unit, and with one that is wrong.
func checkUnit(t *testing.T, m machine) {
	t.Helper()
	if said := m.run(t, "systemd-analyze", "verify", balancer+".service"); strings.Contains(said, balancer) {
		t.Errorf("systemd says of the unit: %s", said)
	}
	if said := m.run(t, "env", "HOME=/root", "XDG_RUNTIME_DIR=/run", "systemd-analyze", "--user", "verify", balancer+"@blue.service"); strings.Contains(said, balancer) {
		t.Errorf("systemd says of the unit of a person: %s", said)
	}
	wrong := strings.Replace(m.read(t, installedUnit), "\nWatchdogSec=", "\nWatchdogSec=never", 1)
	m.put(t, "/etc/systemd/system/"+balancer+"-wrong.service", wrong)
	if said := m.run(t, "systemd-analyze", "verify", balancer+"-wrong.service"); !strings.Contains(said, balancer+"-wrong.service:") {
		t.Errorf("systemd says of a unit that is wrong: %s", said)
	}
}

// checkRPM asks rpm what is in a package.
func checkRPM(t *testing.T, file string) {
	files := strings.Fields(output(t, "rpm", "--query", "--package", "--list", file))
	slices.Sort(files)
	if want := []string{installedProgram, installedUnit, installedUserUnit, filepath.Dir(certificates)}; !slices.Equal(files, want) {
		t.Errorf("it has %q, not %q", files, want)
	}
	if said := output(t, "rpm", "--checksig", "--nosignature", file); !strings.Contains(said, "digests OK") {
		t.Errorf("rpm says of its digests: %s", said)
	}
	if said := output(t, "rpm", "--query", "--package", "--scripts", file); said != "" {
		t.Errorf("it runs %s", said)
	}
	damaged := readFile(t, file)
	damaged[len(damaged)-1] ^= 1
	other := filepath.Join(t.TempDir(), "damaged.rpm")
	if err := os.WriteFile(other, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), "rpm", "--checksig", "--nosignature", other).CombinedOutput(); err == nil {
		t.Errorf("rpm says of a package that is damaged: %s", said)
	}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
