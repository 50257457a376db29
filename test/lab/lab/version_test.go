package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

func TestALabKeepsTheVersionThatItsHostsWereMadeWith(t *testing.T) {
	newest := artifacts.DefaultVersions().Host
	older := artifacts.OlderVersions()[0]
	for name, test := range map[string]struct {
		noted, wanted string
		hosts         bool
		want, failure string
	}{
		"a new lab has the newest":                      {want: newest},
		"a new lab has the one that is asked for":       {wanted: older, want: older},
		"one without hosts takes another":               {noted: older, wanted: newest, want: newest},
		"one with hosts goes on with its own":           {noted: older, hosts: true, wanted: older, want: older},
		"one with hosts that notes none has the newest": {hosts: true, want: newest},
		"one with hosts does not become another":        {noted: older, hosts: true, wanted: newest, want: older, failure: "make clean-lab"},
		"nor the newest when nothing is said":           {noted: older, hosts: true, want: older, failure: "HOST_VERSION=" + older},
		"one that is not built is refused":              {wanted: "v1.2.3", want: newest, failure: "choose one of " + older},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Lab{state: t.TempDir(), network: host.DefaultNetwork()}
			if test.noted != "" {
				if err := l.noteVersion(test.noted); err != nil {
					t.Fatal(err)
				}
			}
			if test.hosts {
				writeHost(t, l)
			}
			err := l.chooseVersion(test.wanted)
			if (err != nil) != (test.failure != "") || err != nil && !strings.Contains(err.Error(), test.failure) {
				t.Errorf("error %v, not %q", err, test.failure)
			}
			if got, err := l.HostVersion(); err != nil || got != test.want {
				t.Errorf("the version is %s, %v, not %s", got, err, test.want)
			}
		})
	}
}

func writeHost(t *testing.T, l *Lab) {
	t.Helper()
	directory := filepath.Join(l.state, "hosts", "cloud-1")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "host.json"), []byte(`{"name":"cloud-1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAHostClusterGoesUpOneMinorAtATime(t *testing.T) {
	for name, test := range map[string]struct {
		from, to string
		allowed  bool
	}{
		"the next minor":         {"v1.35.4", "v1.36.3", true},
		"another patch":          {"v1.35.4", "v1.35.2", true},
		"the same, to go on":     {"v1.36.3", "v1.36.3", true},
		"not the minor after it": {"v1.34.4", "v1.36.3", false},
		"not the minor before":   {"v1.36.3", "v1.35.4", false},
		"not another major":      {"v1.36.3", "v2.36.0", false},
		"not what is no version": {"v1.36.3", "newest", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := checkStep(test.from, test.to); (err == nil) != test.allowed {
				t.Error(err)
			}
		})
	}
}
