package program

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// sampled is how many of the writes the gate tries.
const sampled = 12

// journey is something that a machine goes through, of which the last step is cut short.
type journey struct {
	prepare func(m *machine)
	last    func(m *machine) error
	fails   bool
}

func installs(version string) func(m *machine) error {
	return func(m *machine) error { return m.install(m.document(version)) }
}

func removes(m *machine) error { return m.program().Remove(context.Background()) }

func worker(m *machine) {
	m.write("/usr/local/bin/containerd", "of the distribution")
	m.write("/usr/lib/systemd/system/containerd.service", "ExecStart=/usr/local/bin/containerd")
	m.write("/etc/systemd/system/containerd.service", "# of a person\nExecStart=/usr/local/bin/containerd")
	m.systemd.enabled["containerd.service"], m.systemd.running["containerd.service"] = true, "of the distribution"
}

func upgraded(m *machine) {
	worker(m)
	for _, version := range []string{"v1", "v2"} {
		m.mustInstall(m.document(version))
		if err := m.program().Check(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
	}
}

var journeys = map[string]journey{
	"a first install":                   {prepare: worker, last: installs("v1")},
	"an upgrade":                        {prepare: upgraded, last: installs("v3")},
	"an upgrade that is taken back":     {prepare: func(m *machine) { upgraded(m); m.broken["containerd v3"] = true }, last: installs("v3"), fails: true},
	"a first install that fails":        {prepare: func(m *machine) { worker(m); m.broken["containerd v1"] = true }, last: installs("v1"), fails: true},
	"a removal":                         {prepare: upgraded, last: removes},
	"an install of fewer components":    {prepare: upgraded, last: fewer},
	"a check that takes something back": {prepare: kubeletBroken, last: func(m *machine) error { return m.program().Check(context.Background()) }, fails: true},
}

func fewer(m *machine) error {
	document := m.document("v2")
	document.Components = document.Components[:1]
	document.Components[0].After = nil
	document.Kernel.Sysctls = nil
	return m.install(document)
}

func kubeletBroken(m *machine) {
	upgraded(m)
	m.write("/etc/systemd/system/kubelet.service", "ExecStart=/usr/local/bin/kubelet")
	m.mustInstall(m.document("v3"))
	m.broken["kubelet v3"] = true
	if err := m.systemd.Restart(context.Background(), "kubelet.service"); err != nil {
		m.t.Fatal(err)
	}
}

// after is the machine without what differs between machines: the addresses of their servers.
func (m *machine) after() map[string]string {
	found := m.snapshot()
	for path, content := range found {
		found[path] = strings.ReplaceAll(strings.ReplaceAll(content, m.server.URL, "server"), m.root, "")
	}
	return found
}

func TestARunThatIsKilledBetweenAnyTwoWritesEndsTheSameWhenItIsDoneAgain(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(journeys)) {
		t.Run(name, func(t *testing.T) {
			j := journeys[name]
			undisturbed := newMachine(t)
			j.prepare(undisturbed)
			start := undisturbed.writes
			if err := j.last(undisturbed); (err != nil) != j.fails {
				t.Fatalf("undisturbed: %v", err)
			}
			// A run that failed is told so again, in other words.
			_ = j.last(undisturbed)
			want, total := undisturbed.after(), undisturbed.writes-start
			every := make([]int, total)
			for i := range every {
				every[i] = i
			}
			for _, n := range sample.Of(t, sampled, every) {
				m := newMachine(t)
				j.prepare(m)
				m.offAfter = m.writes + n
				_ = j.last(m)
				m.offAfter = -1
				err := j.last(m)
				if j.fails && software.ResultOf(err).Reason != software.NotWorking || !j.fails && err != nil {
					t.Errorf("killed before write %d of %d, then: %v", n+1, total, err)
				}
				_ = j.last(m)
				if diff := cmp.Diff(want, m.after()); diff != "" {
					t.Fatalf("killed before write %d of %d it ends otherwise:\n%s\n%s", n+1, total, diff, m.log.String())
				}
			}
		})
	}
}

// cuts say which files are gone when a removal of a folder is cut off. After a power cut it may be any of them.
var cuts = map[string]func(isManifest bool) bool{
	"the manifests are gone":         func(isManifest bool) bool { return isManifest },
	"all but the manifests are gone": func(isManifest bool) bool { return !isManifest },
}

// cutOff removes the files of a folder that gone names.
func (m *machine) cutOff(gone func(isManifest bool) bool) func(folder string) {
	return func(folder string) {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !gone(entry.Name() == ".kok-software.json") {
				return err
			}
			return os.Remove(path)
		})
		if err != nil {
			m.t.Error(err)
		}
	}
}

// through takes steps, and returns what the machine has beside the program's own folder after each of them.
func (m *machine) through(steps ...func(*machine) error) []map[string]string {
	m.t.Helper()
	var states []map[string]string
	for i, step := range steps {
		if err := step(m); err != nil {
			m.t.Errorf("step %d: %v", i+1, err)
		}
		state := m.after()
		maps.DeleteFunc(state, func(path, _ string) bool { return strings.HasPrefix(path+"/", software.Dir) })
		states = append(states, state)
	}
	return states
}

func TestARemovalThatIsCutOffAtAnyFileEndsTheSameWhateverIsDoneNext(t *testing.T) {
	first := installs("v1")
	for _, name := range []string{"an upgrade", "a removal", "an install of fewer components"} {
		j := journeys[name]
		for next, steps := range map[string][]func(*machine) error{
			"it is done again":              {j.last, removes, first},
			"all is removed":                {removes, first, removes},
			"the first version is put back": {first, removes, first},
		} {
			undisturbed := newMachine(t)
			j.prepare(undisturbed)
			undisturbed.removals = nil
			undisturbed.through(j.last)
			removals, want := undisturbed.removals, undisturbed.through(steps...)
			for left, gone := range cuts {
				t.Run(name+", "+left+", and "+next, func(t *testing.T) {
					for _, n := range removals {
						m := newMachine(t)
						j.prepare(m)
						m.offAfter, m.cut = n, m.cutOff(gone)
						_ = j.last(m)
						m.offAfter = -1
						if diff := cmp.Diff(want, m.through(steps...)); diff != "" {
							t.Fatalf("cut off at write %d it ends otherwise:\n%s\n%s", n+1, diff, m.log.String())
						}
					}
				})
			}
		}
	}
}
