package lab

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// record has this program be one of a lab: the file to record itself in.
const record = "KOK_LAB_TEST_RECORD"

func TestAProgramGoesWithItsLab(t *testing.T) {
	if file := os.Getenv(record); file != "" {
		if err := host.RecordProgram(file); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute) // It is ended before.
		return
	}
	l := &Lab{state: t.TempDir()}
	if err := l.endPrograms(t.Context()); err != nil {
		t.Errorf("without a program: %v", err)
	}
	program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAProgramGoesWithItsLab$")
	program.Env = append(os.Environ(), record+"="+l.programRecord("mirror"))
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		pid, err := l.Program("mirror")
		return pid == program.Process.Pid, err
	})
	if err != nil {
		t.Fatalf("the lab does not know its program: %v", err)
	}
	if err := l.endPrograms(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err == nil {
		t.Error("the program ended by itself")
	}
	if pid, err := l.Program("mirror"); pid != 0 || err != nil {
		t.Errorf("process %d is a program of the lab still, %v", pid, err)
	}
}

func TestNoProgramComesToALabThatIsNotUp(t *testing.T) {
	l := &Lab{state: t.TempDir() + "/state", network: host.Network{Prefix: "kokno"}}
	if err := l.BecomeProgram(t.Context(), "mirror"); err == nil {
		t.Error("this process is one of a lab without a network")
	}
	for _, path := range []string{l.lockPath(), l.ProgramFolder("mirror")} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}
