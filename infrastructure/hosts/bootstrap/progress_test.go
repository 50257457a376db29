package bootstrap

import (
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
)

func TestProviderIDIsAddedToKubeletsArguments(t *testing.T) {
	const added = "KUBELET_EXTRA_ARGS=--provider-id=idc://a/b"
	for before, want := range map[string]string{
		"":                                      added + "\n",
		"# mine\nA=b\n":                         "# mine\nA=b\n" + added + "\n",
		"KUBELET_EXTRA_ARGS=\n":                 added + "\n",
		"KUBELET_EXTRA_ARGS=--v=4":              added + " --v=4\n",
		"KUBELET_EXTRA_ARGS=\"--a --b\"\nC=d\n": "KUBELET_EXTRA_ARGS=\"--provider-id=idc://a/b --a --b\"\nC=d\n",
		"KUBELET_EXTRA_ARGS=''\n":               "KUBELET_EXTRA_ARGS='--provider-id=idc://a/b'\n",
	} {
		if got := string(withProviderID(before, "idc://a/b")); got != want {
			t.Errorf("%q became %q", before, got)
		}
	}
}

func TestJudge(t *testing.T) {
	ended := hosts.UnitState{Loaded: true, Active: "active"}
	for name, test := range map[string]struct {
		sentinel bool
		unit     hosts.UnitState
		status   *cloudinit.Status
		state    State
		detail   string
	}{
		"the sentinel counts":                   {true, hosts.UnitState{Loaded: true, Active: "activating"}, nil, Done, ""},
		"a stage that runs is named":            {false, hosts.UnitState{Loaded: true, Active: "activating"}, &cloudinit.Status{Status: "running", Detail: "Running in stage: modules-final"}, Running, "Running in stage: modules-final"},
		"what was said before a start is old":   {false, hosts.UnitState{Loaded: true, Active: "activating"}, &cloudinit.Status{Status: "done", Detail: "old"}, Running, "cloud-init starts"},
		"a reboot in the middle is waited for":  {false, hosts.UnitState{Active: "inactive"}, &cloudinit.Status{Status: "running", Detail: "Running in stage: init"}, Running, "after a reboot"},
		"an error is told":                      {false, ended, &cloudinit.Status{Status: "error", Errors: []string{"a", "b"}}, Failed, "cloud-init failed: a; b"},
		"an end without success is a failure":   {false, ended, &cloudinit.Status{Status: "done"}, Failed, "there is no /run/cluster-api/bootstrap-success.complete"},
		"a cloud-init that is switched off":     {false, ended, &cloudinit.Status{Status: "disabled", BootStatusCode: "disabled-by-marker-file"}, Failed, "disabled-by-marker-file"},
		"newer versions have more words for it": {false, ended, &cloudinit.Status{Status: "error - done", Errors: []string{"x"}}, Failed, "cloud-init failed: x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(test.sentinel, test.unit, test.status); got.State != test.state || !strings.Contains(got.Detail, test.detail) {
				t.Errorf("%+v", got)
			}
		})
	}
}
