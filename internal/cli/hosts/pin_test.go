package hosts

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
)

// person is an adder with a person at the terminal who answers so.
func person(answer string, flags addFlags) (*adder, *bytes.Buffer) {
	said := &bytes.Buffer{}
	cluster := access.New("kok", genericiooptions.IOStreams{In: strings.NewReader(answer), Out: &bytes.Buffer{}, ErrOut: said})
	return &adder{cluster: cluster, terminal: func() bool { return answer != "" }, flags: flags}, said
}

func fingerprint(t *testing.T, line string) string {
	t.Helper()
	found, err := ssh.Fingerprint(line)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestHostKeysAreConfirmed(t *testing.T) {
	more := sshtest.HostKeys(t)
	server := sshtest.StartWithoutCommands(t, slices.Collect(maps.Values(more))...)
	rsa := more["ssh-rsa"].Public
	for name, test := range map[string]struct {
		answer string
		flags  addFlags
		// keys are how many are pinned, want is in the error without any.
		keys int
		want string
	}{
		"by a person who says yes":              {answer: "yes\n", keys: 5},
		"not by a person who says no":           {answer: "no\n", want: "were not confirmed; nothing was created"},
		"not by a person who just types Return": {answer: "\n", want: "were not confirmed"},
		"not where nobody can be asked":         {want: "give --fingerprint"},
		"by --yes":                              {flags: addFlags{yes: true}, keys: 5},
		"by a fingerprint, and only that key":   {flags: addFlags{target: serverFlags{fingerprints: []string{fingerprint(t, rsa)}}}, keys: 1},
		"by two fingerprints":                   {flags: addFlags{target: serverFlags{fingerprints: []string{fingerprint(t, rsa), fingerprint(t, server.HostKey)}}}, keys: 2},
		"not by the fingerprint of another key": {flags: addFlags{yes: true, target: serverFlags{fingerprints: []string{fingerprint(t, rsa), "SHA256:other"}}}, want: "has no host key SHA256:other; it has SHA256:"},
	} {
		t.Run(name, func(t *testing.T) {
			test.flags.target.address, test.flags.target.port, test.flags.target.user = server.Address, int32(server.Port), server.User
			a, said := person(test.answer, test.flags)
			host := test.flags.host("seven", "team")
			err := a.pin(t.Context(), host, nil)
			if len(host.Spec.HostKeys) != test.keys || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q, %v\n%s", host.Spec.HostKeys, err, said)
			}
			if test.answer != "" && !strings.Contains(said.String(), fingerprint(t, server.HostKey)) {
				t.Errorf("the fingerprint was not shown:\n%s", said)
			}
		})
	}
}

func TestAHostBehindABastionIsAskedThroughIt(t *testing.T) {
	bastion, host := sshtest.StartWithoutCommands(t), sshtest.StartWithoutCommands(t)
	key, err := ssh.ParseCredentials(bastion.UserKey.Private, nil)
	if err != nil {
		t.Fatal(err)
	}
	flags := addFlags{
		target:  serverFlags{address: host.Address, port: int32(host.Port), user: "admin", fingerprints: []string{fingerprint(t, host.HostKey)}},
		bastion: serverFlags{address: bastion.Address, port: int32(bastion.Port), user: bastion.User, fingerprints: []string{fingerprint(t, bastion.HostKey)}},
	}
	a, _ := person("", flags)
	made := flags.host("seven", "team")
	if err := a.pin(t.Context(), made, []privateKey{{}, {credentials: key}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(made.Spec.HostKeys, []string{host.HostKey}) || !slices.Equal(made.Spec.Bastion.HostKeys, []string{bastion.HostKey}) {
		t.Errorf("%v", made.Spec)
	}

	t.Run("and nobody logs in to a bastion that is not confirmed", func(t *testing.T) {
		flags.bastion.fingerprints = []string{"SHA256:other"}
		a, _ := person("", flags)
		if err := a.pin(t.Context(), flags.host("seven", "team"), []privateKey{{}, {credentials: key}}); err == nil || !strings.Contains(err.Error(), "--bastion-fingerprint") {
			t.Errorf("%v", err)
		}
	})
}
