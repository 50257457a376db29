package program

import (
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/store"
)

func (m *machine) status() Status {
	m.t.Helper()
	status, err := ReadStatus(m.program().Disk)
	if err != nil {
		m.t.Fatal(err)
	}
	return status
}

// states are the states of the components.
func (s Status) states() string {
	var states []string
	for _, c := range s.Components {
		states = append(states, c.Name+"="+c.State)
	}
	return strings.Join(states, " ")
}

func TestStatusSaysWhatIsInstalled(t *testing.T) {
	m := newMachine(t)
	if got := m.status(); got.Complete || len(got.Components) != 0 || got.Result != nil {
		t.Errorf("before an install: %+v", got)
	}
	m.mustInstall(m.document("v1"))
	if got := m.status(); !got.Complete || got.Version != "v1" || got.states() != "containerd=Working kubelet=Unchecked" || got.Components[0].Unit != "containerd.service" || len(got.Components[0].Paths) != 4 {
		t.Errorf("after an install: %+v", got)
	}
	m.broken[""] = true
	if err := m.program().Check(t.Context()); err == nil {
		t.Error("the check succeeds")
	}
	if got := m.status(); got.states() != "containerd=Working kubelet=Absent" || got.Result.Reason != software.NotWorking || len(got.Components[1].Failed) != 1 {
		t.Errorf("after a check that failed: %+v", got)
	}
}

func TestTwoRunsAreKeptApart(t *testing.T) {
	m := newMachine(t)
	release, err := store.Lock(m.program().Disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.install(m.document("v1")); err == nil || !strings.Contains(err.Error(), "another run of kok-software is under way") {
		t.Error(err)
	}
	if m.writes != 0 {
		t.Errorf("it wrote %d times", m.writes)
	}
	release()
	m.mustInstall(m.document("v1"))
}

func TestSourcesThatWereAvoidedAreInTheResult(t *testing.T) {
	m := newMachine(t)
	document := m.document("v1")
	archive := &document.Components[0].Variants[0].Archive
	archive.URLs = append([]string{m.server.URL + "/none?token=secret"}, archive.URLs...)
	m.mustInstall(document)
	want := m.server.URL + "/none: it answers 404 Not Found"
	for range 2 {
		if got := m.status().Result; len(got.Avoided) != 1 || got.Avoided[0] != want || got.Reason != "" {
			t.Errorf("%+v, want %q", got, want)
		}
		if err := m.program().Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
