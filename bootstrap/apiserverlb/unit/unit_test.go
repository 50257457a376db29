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

func TestTheUnitOfAPersonAgreesWithTheNamesOfThisPackage(t *testing.T) {
	kubeconfig := filepath.Join("%h", AdminDir, "%i"+AdminSuffix)
	for _, line := range []string{
		"ConditionPathExists=" + kubeconfig + "\n", "ExecStart=" + Program + " run --kubeconfig=" + kubeconfig + "\n", "Type=notify\n",
		"NoNewPrivileges=yes\n", "UMask=0077\n",
		// A user's systemd has no multi-user.target.
		"WantedBy=default.target\n",
	} {
		if !strings.Contains(Admin, line) {
			t.Errorf("the unit has no %q", line)
		}
	}
	for _, word := range []string{"Capabilit", "User=", "Protect", "Private"} {
		if strings.Contains(Admin, word) {
			t.Errorf("the unit has %s, which systems with a user's systemd alone refuse or leave out", word)
		}
	}
}

// systemd looks for a program that is named without a directory in all of the system's path.
func TestTheProgramMayBeAnywhereInTheSystemsPath(t *testing.T) {
	for line := range strings.Lines(Service + ServiceAddress + Admin) {
		if key, command, ok := strings.Cut(line, "="); ok && strings.HasPrefix(key, "Exec") && key != "ExecSearchPath" && !strings.HasPrefix(command, Program+" ") {
			t.Errorf("the program must be in one directory: %s", line)
		}
	}
}

func TestOnlyTheDropInAdministersTheNetwork(t *testing.T) {
	if strings.Contains(Service, "CAP_NET_ADMIN") || !strings.Contains(ServiceAddress, "CAP_NET_ADMIN") {
		t.Error("CAP_NET_ADMIN is not where it belongs")
	}
}
