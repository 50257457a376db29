package unit

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheUnitAgreesWithTheNamesOfThisPackage(t *testing.T) {
	for _, line := range []string{
		"ExecStart=" + Program + " run ",
		"Before=kubelet.service\n",
		"Type=notify\n",
		"DynamicUser=yes\n",
		"StateDirectory=" + filepath.Base(filepath.Dir(StateFile)) + "\n",
		"AmbientCapabilities=CAP_DAC_READ_SEARCH\n",
		"open_by_handle_at",
		"BindReadOnlyPaths=" + CertificatesDir + "\n",
	} {
		if !strings.Contains(Service, line) {
			t.Errorf("the unit has no %q", line)
		}
	}
	if !strings.Contains(ServiceAddress, "ExecStopPost="+Program+" release ") {
		t.Error("a program that was killed does not give the Service's address back")
	}
}

// systemd looks for a program that is named without a directory in all of the system's path.
func TestTheProgramMayBeAnywhereInTheSystemsPath(t *testing.T) {
	for line := range strings.Lines(Service + ServiceAddress) {
		if key, command, ok := strings.Cut(line, "="); ok && strings.HasPrefix(key, "Exec") && !strings.HasPrefix(command, Program+" ") {
			t.Errorf("the program must be in one directory: %s", line)
		}
	}
}

func TestOnlyTheDropInAdministersTheNetwork(t *testing.T) {
	if strings.Contains(Service, "CAP_NET_ADMIN") || !strings.Contains(ServiceAddress, "CAP_NET_ADMIN") {
		t.Error("CAP_NET_ADMIN is not where it belongs")
	}
}
