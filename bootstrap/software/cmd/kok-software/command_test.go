package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/program"
)

func execute(t *testing.T, args ...string) error {
	t.Helper()
	command := newCommand()
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	command.SetArgs(args)
	return command.ExecuteContext(t.Context())
}

func TestMistakesAreTold(t *testing.T) {
	for message, args := range map[string][]string{
		`unknown command "go"`:        {"go"},
		`unknown command "now" for`:   {"check", "now"},
		"unknown flag: --retry":       {"remove", "--retry"},
		"it is json or unset":         {"status", "-o", "yaml"},
		`invalid argument "x" for "-`: {"install", "--timeout=x"},
	} {
		if err := execute(t, args...); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestOnlyRootChangesAMachine(t *testing.T) {
	if err := checkUser("kok-software install", 1000); err == nil || err.Error() != "kok-software install must run as root" {
		t.Error(err)
	}
	if err := checkUser("kok-software install", 0); err != nil {
		t.Error(err)
	}
}

func TestTheTableHasEachComponentAndWhyTheLastRunFailed(t *testing.T) {
	var out bytes.Buffer
	err := table(&out, program.Status{
		Components: []program.ComponentStatus{{Name: "containerd", State: "Working", Revision: strings.Repeat("a", 64), Unit: "containerd.service"}},
		Result:     &software.Result{Reason: software.NoRoom, Message: "the disk is full"},
	})
	want := "COMPONENT    STATE     REVISION       BEFORE   UNIT\ncontainerd   Working   aaaaaaaaaaaa            containerd.service\n\nThe last run failed: NoRoomForSoftware: the disk is full\n"
	if err != nil || out.String() != want {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
