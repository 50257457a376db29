//go:build root

package hostclient

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
)

// The way from an IDCHost and its Secrets to a real SSH server, also behind a bastion.
func TestTheHostClientReachesHosts(t *testing.T) {
	const namespace = "team"
	server, bastion := sshtest.Start(t), sshtest.Start(t)
	certified := sshtest.NewKey(t)
	secrets := fake.NewClientBuilder()
	for name, data := range map[string]map[string][]byte{
		"key":         {"ssh-privatekey": server.UserKey.Private},
		"bastion":     {"ssh-privatekey": bastion.UserKey.Private},
		"certificate": {"ssh-privatekey": certified.Private, "ssh-certificate": server.CA.Certify(t, certified, server.User)},
		"other":       {"ssh-privatekey": sshtest.NewKey(t).Private},
		"empty":       {"key": []byte("x")},
		"broken":      {"ssh-privatekey": []byte("secret-of-mine")},
	} {
		secrets.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data})
	}
	through := &infrav1.SSHServer{
		Address: bastion.Address, Port: int32(bastion.Port), User: bastion.User,
		KeySecretRef: infrav1.SecretReference{Name: "bastion"}, HostKeys: []string{bastion.HostKey},
	}
	hostClient := &SSH{Secrets: secrets.Build()}
	for name, test := range map[string]struct {
		edit   func(*infrav1.IDCHost)
		reason ssh.Reason
		// bastion is true when the bastion was not reached.
		bastion bool
		says    string
	}{
		"with a key":           {func(*infrav1.IDCHost) {}, "", false, ""},
		"with a certificate":   {func(h *infrav1.IDCHost) { h.Spec.KeySecretRef.Name = "certificate" }, "", false, ""},
		"through a bastion":    {func(h *infrav1.IDCHost) { h.Spec.Bastion = through }, "", false, ""},
		"not with another key": {func(h *infrav1.IDCHost) { h.Spec.KeySecretRef.Name = "other" }, ssh.AuthenticationFailed, false, ""},
		"not without a Secret": {func(h *infrav1.IDCHost) { h.Spec.KeySecretRef.Name = "none" }, ssh.CredentialsInvalid, false,
			`read Secret none with the key: secrets "none" not found; create it, with the private key in ssh-privatekey`},
		"not with an empty Secret": {func(h *infrav1.IDCHost) { h.Spec.KeySecretRef.Name = "empty" }, ssh.CredentialsInvalid, false,
			"Secret empty has no ssh-privatekey; put the private key there"},
		"not with a broken key": {func(h *infrav1.IDCHost) { h.Spec.KeySecretRef.Name = "broken" }, ssh.CredentialsInvalid, false,
			"Secret broken: the private key is not in OpenSSH's or PEM's format"},
		"not with another host key": {func(h *infrav1.IDCHost) { h.Spec.HostKeys = []string{bastion.HostKey} }, ssh.HostKeyMismatch, false, ""},
		"not when it is away":       {func(h *infrav1.IDCHost) { h.Spec.Port = 1 }, ssh.Away, false, ""},
		"not when its bastion is away": {func(h *infrav1.IDCHost) {
			away := *through
			away.Port, h.Spec.Bastion = 1, &away
		}, ssh.Away, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "host-1"}}
			host.Spec.SSHServer = infrav1.SSHServer{
				Address: server.Address, Port: int32(server.Port), User: server.User,
				KeySecretRef: infrav1.SecretReference{Name: "key"}, HostKeys: []string{server.HostKey},
			}
			test.edit(host)
			facts, _, err := hostClient.Probe(t.Context(), host)
			var failed *ssh.Error
			switch {
			case test.reason == "":
				if err != nil || facts == nil || facts.CPUs < 1 {
					t.Errorf("%+v, %v", facts, err)
				}
			case !errors.As(err, &failed) || failed.Reason != test.reason || failed.Bastion != test.bastion:
				t.Errorf("%v", err)
			case test.says != "" && failed.Error() != test.says:
				t.Errorf("it says %q", failed.Error())
			}
		})
	}
}
