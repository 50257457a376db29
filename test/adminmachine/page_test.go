package adminmachine

import (
	"slices"
	"strings"
	"testing"
)

func TestAnAdministratorNeedsTwoCommandsAndKubectl(t *testing.T) {
	found, err := commands("Two commands")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, command := range found[:min(3, len(found))] {
		program, _, _ := strings.Cut(command, " ")
		programs = append(programs, program)
	}
	if want := []string{"kok", "systemctl", "kubectl"}; !slices.Equal(programs, want) {
		t.Errorf("%s has %q under Two commands, and begins with %q, not %q", page, found, programs, want)
	}
	if _, err := commands("No such heading"); err == nil {
		t.Error("a heading that is not there has commands")
	}
}
