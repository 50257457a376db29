package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

func TestMissing(t *testing.T) {
	const installed = "runc\tii \t1.1.5\nkubelet\thi \t1.36.3-1\nhalf\tiF \t1\ngone\trc \t1\n"
	for name, c := range map[string]struct {
		wanted  bootstrapv1.Package
		missing bool
	}{
		"one that is installed is not":           {bootstrapv1.Package{Name: "runc"}, false},
		"one in the version is not":              {bootstrapv1.Package{Name: "runc", Version: "1.1.5"}, false},
		"one that is held is not":                {bootstrapv1.Package{Name: "kubelet", Version: "1.36.3-1"}, false},
		"one in another version is":              {bootstrapv1.Package{Name: "runc", Version: "1.1.6"}, true},
		"one that is half configured is":         {bootstrapv1.Package{Name: "half"}, true},
		"one that was removed with its files is": {bootstrapv1.Package{Name: "gone"}, true},
		"one that dpkg does not know is":         {bootstrapv1.Package{Name: "none"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := missing([]bootstrapv1.Package{c.wanted}, installed); len(got) != 0 != c.missing {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestInstallArgs(t *testing.T) {
	args := installArgs([]bootstrapv1.Package{{Name: "a"}, {Name: "b", Version: "1:2"}})
	if i := slices.Index(args, "--"); args[0] != "install" || i < 0 || !slices.Equal(args[i+1:], []string{"a", "b=1:2"}) || !slices.Contains(args, "--yes") {
		t.Errorf("%q", args)
	}
}

func TestRepositoryFiles(t *testing.T) {
	const key = "/etc/apt/keyrings/kok-software-r.asc"
	for name, c := range map[string]struct {
		source, key, want string
	}{
		"a source without a key stays":           {"deb https://a /", "", "deb https://a /\n"},
		"a key is for its source alone":          {"deb https://a /", "KEY", "deb [signed-by=" + key + "] https://a /\n"},
		"options stay":                           {"deb [arch=amd64] https://a b c", "KEY", "deb [arch=amd64 signed-by=" + key + "] https://a b c\n"},
		"a source that names its key goes by it": {"deb [signed-by=/x.asc] https://a b", "KEY", "deb [signed-by=/x.asc] https://a b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{"/etc/apt/sources.list.d/r.list": c.want}
			if c.key != "" {
				want[key] = "KEY\n"
			}
			if got := RepositoryFiles([]bootstrapv1.PackageRepository{{Name: "r", Source: c.source, Key: c.key}}); !maps.Equal(got, want) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestOfAMachineWithoutAptPackagesAreRefused(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := APT{}.Missing(t.Context(), []bootstrapv1.Package{{Name: "a"}})
	if err == nil || !strings.Contains(err.Error(), "this machine has none; give the component a variant with an archive") {
		t.Error(err)
	}
}

// machine puts scripts in the place of dpkg and apt-get. A call of a script prints the script's next line and fails. It succeeds where
// that line is empty, or where no line is left. machine returns a function that lists the calls of a program.
func machine(t *testing.T, says map[string][]string) func(program string) []string {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	for _, program := range []string{"dpkg", "dpkg-query", "apt-get"} {
		path := filepath.Join(folder, program)
		script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%[1]s.calls\ncase $(wc -l <%[1]s.calls) in\n", path)
		for i, line := range says[program] {
			if line != "" {
				script += fmt.Sprintf("%d) echo '%s'; exit 2;;\n", i+1, line)
			}
		}
		if err := os.WriteFile(path, []byte(script+"esac\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return func(program string) []string {
		calls, err := os.ReadFile(filepath.Join(folder, program+".calls"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return slices.Collect(strings.Lines(string(calls)))
	}
}

// What dpkg and apt say.
const (
	frontendLock = "dpkg: error: dpkg frontend lock was locked by another process with pid 7"
	frontendOf   = "dpkg: error: dpkg frontend lock was locked by /usr/bin/apt-get process with pid 7"
	statusLock   = "dpkg: error: dpkg status database is locked by another process"
	damaged      = "dpkg: error: the dpkg status database is damaged"
	listsLock    = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"
	archivesLock = "E: Could not get lock /var/cache/apt/archives/lock. It is held by process 7 (apt-get)"
	notOpened    = "E: Could not open lock file /var/lib/apt/lists/lock - open (30: Read-only file system)"
	waited       = "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)"
)

func TestLocksOfOthersAreWaitedForAndOtherFailuresAreNot(t *testing.T) {
	for name, c := range map[string]struct {
		dpkg, apt []string
		reason    string
		// dpkgs and apts are how often each is called.
		dpkgs, apts int
	}{
		"without a lock each step is done once":  {dpkgs: 1, apts: 2},
		"dpkg meets a lock twice":                {dpkg: []string{frontendLock, frontendLock}, dpkgs: 3, apts: 2},
		"newer dpkg name the other process":      {dpkg: []string{frontendOf}, dpkgs: 2, apts: 2},
		"older dpkg have other words":            {dpkg: []string{statusLock}, dpkgs: 2, apts: 2},
		"an update meets the lock of lists":      {apt: []string{listsLock}, dpkgs: 1, apts: 3},
		"an install meets the lock of downloads": {apt: []string{"", archivesLock}, dpkgs: 1, apts: 3},
		"dpkg fails":                             {dpkg: []string{damaged}, reason: damaged, dpkgs: 1},
		"dpkg fails after a lock":                {dpkg: []string{frontendLock, damaged}, reason: damaged, dpkgs: 2},
		"a script of a package speaks of locks":  {dpkg: []string{"the door is locked by a key"}, reason: "the door", dpkgs: 1},
		"an update cannot lock":                  {apt: []string{notOpened}, reason: notOpened, dpkgs: 1, apts: 1},
		"an install fails that waited by itself": {apt: []string{"", waited}, reason: waited, dpkgs: 1, apts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			calls := machine(t, map[string][]string{"dpkg": c.dpkg, "apt-get": c.apt})
			err := APT{pause: time.Millisecond}.Install(t.Context(), []bootstrapv1.Package{{Name: "runc"}})
			if (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
				t.Error(err)
			}
			if dpkg, apt := calls("dpkg"), calls("apt-get"); len(dpkg) != c.dpkgs || len(apt) != c.apts {
				t.Errorf("dpkg was called with %q, apt-get with %q", dpkg, apt)
			}
		})
	}
}

func TestTheWaitForALockEnds(t *testing.T) {
	late, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("it is late"))
	t.Cleanup(cancel)
	for name, c := range map[string]struct {
		ctx context.Context
		apt APT
	}{
		"after its time":   {t.Context(), APT{pause: time.Millisecond, lockTime: 20 * time.Millisecond}},
		"with the context": {late, APT{pause: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			machine(t, map[string][]string{"dpkg": slices.Repeat([]string{frontendLock}, 100)})
			if err := c.apt.Install(c.ctx, nil); err == nil || !strings.Contains(err.Error(), "dpkg --force-confdef: ") {
				t.Error(err)
			}
		})
	}
}
