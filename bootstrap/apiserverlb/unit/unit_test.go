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

// The program may read every file that it sees.
func TestTheUnitDoesNotSeeSecretsBelowRun(t *testing.T) {
	hidden := map[string]bool{}
	for line := range strings.Lines(Service) {
		if paths, found := strings.CutPrefix(strings.TrimSpace(line), "InaccessiblePaths="); found {
			for _, path := range strings.Fields(paths) {
				hidden[path] = true
			}
		}
	}
	for path, why := range map[string]string{
		"containerd": "specifications of containers", "crio": "specifications of containers", "docker": "specifications of containers",
		"cloud-init": "bootstrap data", "credentials": "credentials of services", "secrets": "secrets that a host gives containers", "user": "files of people",
	} {
		// A machine may not have the folder.
		if !hidden["-/run/"+path] {
			t.Errorf("the unit sees /run/%s, which has %s", path, why)
		}
	}
	for _, needed := range []string{"-/run", "/run", "-/run/systemd"} {
		if hidden[needed] {
			t.Errorf("%s is hidden, where the program tells systemd that it is ready", needed)
		}
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
	for _, word := range []string{"Capabilit", "User=", "Protect", "Private", "Paths="} {
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
