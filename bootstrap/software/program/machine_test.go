package program

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/disk"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/fetch"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/kernel"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/units"
)

// machine is a folder that stands for a machine: its disk is real, its systemd is not.
type machine struct {
	t    *testing.T
	root string
	// mutex guards asked and writes: files are downloaded side by side.
	mutex sync.Mutex
	// files are what the server has, by their SHA-256; asked are those that were asked for.
	server *httptest.Server
	files  map[string][]byte
	asked  []string
	// systemd is the state of units.
	systemd *systemd
	// broken are contents of programs that do not work.
	broken map[string]bool
	// packages are those that are installed.
	packages map[string]string
	// writes counts what changes the machine; after the given number of them the machine is off.
	writes, offAfter int
	// cut is done once, when the machine goes off at the removal of a folder; nil does nothing.
	cut func(folder string)
	// removals are the numbers of the writes that remove a folder.
	removals []int
	log      bytes.Buffer
	// clock is that of programs. It stands still, so that results are the same.
	clock func() time.Time
}

var errOff = errors.New("the machine is off")

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, root: memory(t), files: map[string][]byte{}, broken: map[string]bool{}, packages: map[string]string{}, offAfter: -1, clock: func() time.Time { return time.Time{} }}
	m.systemd = &systemd{m: m, enabled: map[string]bool{}, running: map[string]string{}}
	m.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mutex.Lock()
		m.asked = append(m.asked, r.URL.Path)
		m.mutex.Unlock()
		content, ok := m.files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content)
	}))
	t.Cleanup(m.server.Close)
	m.write("/proc/sys/net/ipv4/ip_forward", "0\n")
	return m
}

// memory is a folder in memory where there is such a file system: a program that writes to a disk waits for it, and here a
// hundred times.
func memory(t *testing.T) string {
	folder, err := os.MkdirTemp("/dev/shm", "kok-software-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

func (m *machine) write(path, content string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.root+path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.root+path, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// writing is told each change of the machine before it is done.
func (m *machine) writing(operation string) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	folder, removes := strings.CutPrefix(operation, "remove all of ")
	if m.offAfter >= 0 && m.writes >= m.offAfter {
		if removes && m.cut != nil {
			m.cut(m.root + folder)
		}
		m.cut = nil
		return errOff
	}
	if removes {
		m.removals = append(m.removals, m.writes)
	}
	m.writes++
	return nil
}

func (m *machine) program() *Program {
	d := &disk.Disk{Root: m.root, Writing: m.writing}
	p := &Program{
		Disk: d, Units: m.systemd, Checker: checker{m}, Packages: packagesOf{m}, Log: &m.log, clock: m.clock,
		Kernel: &kernel.Kernel{Disk: d, Load: func(context.Context, string) error { return nil }},
		Facts: func() (facts.Facts, error) {
			return facts.Facts{OS: "debian", OSVersion: "12", Architecture: "amd64"}, nil
		},
	}
	p.Fetcher = func(mirrors []software.Mirror) Fetcher {
		return fetch.New(fetch.Options{Disk: d, Mirrors: mirrors, Say: p.Say})
	}
	return p
}

func (m *machine) install(document software.Document) error {
	return m.program().Install(m.t.Context(), func() (software.Document, error) { return document, nil })
}

// publish puts a file on the server.
func (m *machine) publish(content []byte) bootstrapv1.SoftwareArchive {
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	m.files[name] = content
	return bootstrapv1.SoftwareArchive{URLs: []string{m.server.URL + "/" + name}, SHA256: name}
}

// archive is a tar archive of programs.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	w := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// snapshot is all that is on the machine, by its path, and the state of its units.
func (m *machine) snapshot(without ...string) map[string]string {
	m.t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(m.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, m.root)
		if slices.ContainsFunc(without, func(w string) bool { return name == w || strings.HasPrefix(name, w+"/") }) {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		found[name] = info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			found[name] += " " + strings.TrimPrefix(target, m.root)
			return err
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			found[name] += " " + string(content)
			return err
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	for unit := range m.systemd.enabled {
		found["enabled "+unit] = "yes"
	}
	for unit, running := range m.systemd.running {
		found["running "+unit] = running
	}
	return found
}

// systemd starts what a unit's file says: the content of the program at that time is what runs.
type systemd struct {
	m        *machine
	enabled  map[string]bool
	running  map[string]string
	restarts int
}

func (s *systemd) file(unit string) string {
	for _, folder := range []string{"/etc/systemd/system/", "/usr/lib/systemd/system/"} {
		if content, err := os.ReadFile(s.m.root + folder + unit); err == nil {
			return string(content)
		}
	}
	return ""
}

func (s *systemd) change(do func()) error {
	if err := s.m.writing("systemd"); err != nil {
		return err
	}
	do()
	return nil
}

func (s *systemd) Reload(context.Context) error { return s.change(func() {}) }

func (s *systemd) Enable(_ context.Context, unit string) error {
	if s.file(unit) == "" {
		return fmt.Errorf("%s has no file", unit)
	}
	return s.change(func() { s.enabled[unit] = true })
}

func (s *systemd) Disable(_ context.Context, unit string) error {
	return s.change(func() { delete(s.enabled, unit) })
}

func (s *systemd) Start(ctx context.Context, unit string) error {
	if _, runs := s.running[unit]; runs {
		return nil
	}
	return s.Restart(ctx, unit)
}

func (s *systemd) Restart(_ context.Context, unit string) error {
	file := s.file(unit)
	if file == "" {
		return fmt.Errorf("%s has no file", unit)
	}
	_, program, _ := strings.Cut(file, "ExecStart=")
	content, err := os.ReadFile(s.m.root + strings.TrimSpace(program))
	if err != nil {
		return fmt.Errorf("start %s: %w", unit, err)
	}
	return s.change(func() {
		s.restarts++
		s.running[unit] = string(content)
	})
}

func (s *systemd) Stop(_ context.Context, unit string) error {
	return s.change(func() { delete(s.running, unit) })
}

func (s *systemd) State(_ context.Context, unit string) (units.State, error) {
	state := units.State{Known: s.file(unit) != "", Enabled: s.enabled[unit], Active: "inactive"}
	if _, runs := s.running[unit]; runs {
		state.Active = "active"
	}
	return state, nil
}

func (s *systemd) Journal(context.Context, string) string {
	return "it says https://user:secret@host/?token=secret"
}

// checker finds that what is broken does not work.
type checker struct{ m *machine }

func (c checker) Wait(_ context.Context, wanted bootstrapv1.SoftwareCheck) error {
	if c.m.broken[c.m.systemd.running[wanted.Unit]] {
		return errors.New("the check says that it is broken")
	}
	return nil
}

// packagesOf installs packages on a machine.
type packagesOf struct{ m *machine }

func (p packagesOf) Missing(_ context.Context, wanted []bootstrapv1.Package) (missing []bootstrapv1.Package, _ error) {
	for _, w := range wanted {
		if version, ok := p.m.packages[w.Name]; !ok || w.Version != "" && version != w.Version {
			missing = append(missing, w)
		}
	}
	return missing, nil
}

func (p packagesOf) Install(_ context.Context, wanted []bootstrapv1.Package) error {
	for _, w := range wanted {
		if w.Name == "nowhere" {
			return errors.New("apt-get install: unable to locate package nowhere")
		}
		if err := p.m.writing("package"); err != nil {
			return err
		}
		p.m.packages[w.Name] = w.Version
	}
	return nil
}
