//go:build envtest

package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
)

func file(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// add is the command line that adds a server as a host; more comes after it.
func add(name string, server *sshtest.Server, key string, more ...string) []string {
	return append([]string{"hosts", "add", name, "--address", server.Address, "--port", strconv.Itoa(server.Port), "--user", server.User, "--key", key}, more...)
}

func TestAHostIsAdded(t *testing.T) {
	s := newSite(t)
	s.manager()
	server := sshtest.StartWithoutCommands(t, slices.Collect(maps.Values(sshtest.HostKeys(t)))...)
	key := file(t, server.UserKey.Private)
	fingerprint, err := ssh.Fingerprint(server.HostKey)
	if err != nil {
		t.Fatal(err)
	}
	command := add("seven", server, key, "--fingerprint", fingerprint, "--label", "pool=workers", "--failure-domain", "rack-1")
	found := []string{"IDCHost " + s.namespace + "/seven can be used: Free", "Debian GNU/Linux 12 (bookworm)", "amd64", "16Gi", "rack-1", "containerd"}
	s.expect(0, append(found, "Secret "+s.namespace+"/seven-ssh is created"), command...)

	host, secret := &infrav1.IDCHost{}, &corev1.Secret{}
	if !s.has("seven", host) || !s.has("seven-ssh", secret) {
		t.Fatal("there is no host, or no Secret")
	}
	if !slices.Equal(host.Spec.HostKeys, []string{server.HostKey}) || host.Labels["pool"] != "workers" || host.Spec.KeySecretRef.Name != "seven-ssh" {
		t.Errorf("%v %v", host.Labels, host.Spec)
	}
	if secret.Type != corev1.SecretTypeSSHAuth || string(secret.Data[infrav1.SSHPrivateKey]) != string(server.UserKey.Private) {
		t.Errorf("the Secret is of type %s", secret.Type)
	}

	t.Run("and again nothing changes", func(t *testing.T) {
		s := s.in(t)
		var before, after infrav1.IDCHost
		var had, has corev1.Secret
		s.has("seven", &before)
		s.has("seven-ssh", &had)
		s.expect(0, append(found, "is there already, with these values"), command...)
		s.has("seven", &after)
		s.has("seven-ssh", &has)
		if before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) || had.ResourceVersion != has.ResourceVersion {
			t.Errorf("generations %d and %d, Secret %s and %s", before.Generation, after.Generation, had.ResourceVersion, has.ResourceVersion)
		}
	})
	t.Run("and other values are refused with the command that changes them", func(t *testing.T) {
		s := s.in(t)
		s.expect(2, []string{"spec.failureDomain is rack-1, not rack-2", "kubectl patch idchost seven --namespace " + s.namespace},
			add("seven", server, key, "--failure-domain", "rack-2")...)
	})
	t.Run("and its Secret is used for another host with the same key", func(t *testing.T) {
		s := s.in(t)
		s.expect(0, []string{"can be used"}, add("eight", server, key, "--key-secret", "seven-ssh", "--yes")...)
		if s.has("eight", host); len(host.Spec.HostKeys) != 5 {
			t.Errorf("host keys %q", host.Spec.HostKeys)
		}
	})
	t.Run("and not for one with another key", func(t *testing.T) {
		s := s.in(t)
		s.expect(2, []string{"Secret " + s.namespace + "/seven-ssh is there and holds another key"}, add("nine", server, file(t, sshtest.NewKey(t).Private), "--key-secret", "seven-ssh", "--yes")...)
		if s.has("nine", host) {
			t.Error("the host is there")
		}
	})
	t.Run("and nothing is created that nobody confirmed", func(t *testing.T) {
		s := s.in(t)
		s.expect(2, []string{fingerprint, "there is no terminal to ask at"}, add("ten", server, key)...)
		if s.has("ten", host) || s.has("ten-ssh", secret) {
			t.Error("something is there")
		}
	})
	t.Run("and nothing is created that the API refuses", func(t *testing.T) {
		s := s.in(t)
		refused := *server
		refused.User = "-x"
		s.expect(2, []string{"spec.user", "must be a user name"}, add("eleven", &refused, key, "--yes")...)
		if s.has("eleven", host) || s.has("eleven-ssh", secret) {
			t.Error("something is there")
		}
	})
	t.Run("and a host that does not let the controller in is bad news", func(t *testing.T) {
		s := s.in(t)
		s.expect(1, []string{"Waiting: ", "cannot be used after 5s: Reachable: AuthenticationFailed: ", "add the public key to that user's authorized_keys"},
			add("twelve", server, file(t, sshtest.NewKey(t).Private), "--yes", "--timeout", "5s")...)
	})
	t.Run("and a host behind a bastion is added through it", func(t *testing.T) {
		s := s.in(t)
		bastion := sshtest.StartWithoutCommands(t)
		s.expect(0, []string{"can be used", "bastion"}, add("thirteen", server, key, "--yes", "--bastion-address", bastion.Address,
			"--bastion-port", strconv.Itoa(bastion.Port), "--bastion-user", bastion.User, "--bastion-key", file(t, bastion.UserKey.Private))...)
		if !s.has("thirteen", host) || host.Spec.Bastion == nil || !slices.Equal(host.Spec.Bastion.HostKeys, []string{bastion.HostKey}) || !s.has("thirteen-bastion-ssh", secret) {
			t.Errorf("%v", host.Spec)
		}
	})
	t.Run("and hosts are checked", func(t *testing.T) {
		s := s.in(t)
		s.expect(0, []string{"NAME ", "seven ", "free ", "Free", "twelve", "unusable", "AuthenticationFailed", "\ntwelve: the host "}, "hosts", "check")
		s.expect(0, nil, "hosts", "check", "seven", "eight")
		s.expect(1, []string{"1 of 2 hosts cannot be used"}, "hosts", "check", "seven", "twelve")
		s.expect(2, []string{"has no IDCHost none"}, "hosts", "check", "none")
	})
	t.Run("and their names are completed", func(t *testing.T) {
		s := s.in(t)
		s.expect(0, []string{"seven\n", "twelve\n"}, "__complete", "hosts", "check", "eight", "")
	})
	t.Run("and one that is well, and in quarantine, cannot be used", func(t *testing.T) {
		s := s.in(t)
		s.has("seven", host)
		host.Spec.Quarantine = &infrav1.HostQuarantine{Reason: "the fan"}
		must[any](t)(nil, environment.Client.Update(t.Context(), host))
		s.expect(1, []string{"cannot be used after 5s: Available: Quarantined: in quarantine", "the fan", `'{"spec":{"quarantine":null}}'`}, append(command, "--timeout", "5s")...)
	})
}

func TestAHostThatNoControllerLooksAtIsToldOf(t *testing.T) {
	s := newSite(t)
	server := sshtest.StartWithoutCommands(t)
	s.expect(1, []string{"cannot be used after 1s: the controller did not look at it yet"}, add("seven", server, file(t, server.UserKey.Private), "--yes", "--timeout", "1s")...)
	s.expect(1, []string{"unknown", "NotAsked"}, "hosts", "check", "seven")
	s.expect(0, []string{"Not waiting"}, add("seven", server, file(t, server.UserKey.Private), "--yes", "--timeout", "0")...)
	newSite(t).expect(0, []string{"has no IDCHosts"}, "hosts", "check")
}
