package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestAProgramIsEndedByItsRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "programs", "one", "process.json")
	if pid, err := Program(file); pid != 0 || err != nil {
		t.Errorf("without a record there is process %d, %v", pid, err)
	}
	if err := RecordProgram(file); err != nil {
		t.Fatal(err)
	}
	if pid, err := Program(file); pid != os.Getpid() || err != nil {
		t.Errorf("this process is recorded as %d, %v", pid, err)
	}

	other := exec.CommandContext(t.Context(), "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	record := func() {
		t.Helper()
		running, err := identify(other.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeJSON(file, running); err != nil {
			t.Fatal(err)
		}
	}
	record()
	if err := RecordProgram(file); err == nil {
		t.Error("a second program is recorded while the first one runs")
	}
	if err := EndProgram(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err == nil {
		t.Error("the program ended by itself")
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("its record is left: %v", err)
	}
	if err := EndProgram(t.Context(), file); err != nil {
		t.Errorf("to end it once more fails: %v", err)
	}
}

func TestAProcessWithTheNumberOfAnEndedProgramIsLeftAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "process.json")
	other := exec.CommandContext(t.Context(), "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	running, err := identify(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	running.Start-- // An earlier process had this number.
	if err := writeJSON(file, running); err != nil {
		t.Fatal(err)
	}
	if pid, err := Program(file); pid != 0 || err != nil {
		t.Errorf("process %d is taken for the program, %v", pid, err)
	}
	if err := EndProgram(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if _, err := identify(other.Process.Pid); err != nil {
		t.Errorf("the other process was ended: %v", err)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
}
