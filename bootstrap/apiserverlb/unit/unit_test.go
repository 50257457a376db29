package unit

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheUnitAgreesWithTheNamesOfThisPackage(t *testing.T) {
	for _, line := range []string{
		"ExecStart=" + BinaryPath + " run ",
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
	if !strings.Contains(ServiceAddress, "ExecStopPost="+BinaryPath+" release ") {
		t.Error("a program that was killed does not give the Service's address back")
	}
}

func TestOnlyTheDropInAdministersTheNetwork(t *testing.T) {
	if strings.Contains(Service, "CAP_NET_ADMIN") || !strings.Contains(ServiceAddress, "CAP_NET_ADMIN") {
		t.Error("CAP_NET_ADMIN is not where it belongs")
	}
}
