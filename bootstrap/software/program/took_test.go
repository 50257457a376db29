package program

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

func TestTheResultSaysWhereTheTimeOfAnInstallWent(t *testing.T) {
	m := newMachine(t)
	var now time.Time
	m.clock = func() time.Time { now = now.Add(1500 * time.Millisecond); return now } // Whatever is timed takes as long.
	want := func(what string, want software.Took) {
		t.Helper()
		result := m.status().Result
		if diff := cmp.Diff(&want, result.Took); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	first := software.Took{DownloadSeconds: 1.5, UnpackSeconds: 3, CheckSeconds: 1.5}
	m.mustInstall(m.document("v1"))
	want("two components, of which one has a unit", first)
	m.mustInstall(m.document("v1"))
	want("an install that has nothing to do", first)
	m.broken[""] = true
	if err := m.program().Check(t.Context()); err == nil {
		t.Error("the check succeeds")
	}
	want("a check that fails", first)
	delete(m.broken, "")
	document := m.document("v2")
	document.Components[1] = m.document("v1").Components[1]
	m.mustInstall(document)
	want("another kubelet alone", software.Took{DownloadSeconds: 1.5, UnpackSeconds: 1.5})
}
