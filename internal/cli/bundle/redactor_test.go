package bundle

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Values that must be in no text.
const (
	password   = "Tr0ub4dor-and-3"
	token      = "abcdef.0123456789abcdef"
	jwt        = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
	shortKey   = "c2hvcnQta2V5LWRhdGE="
	registry   = "Zm9vOmJhckJhejEyMzQ1Njc4OTA="
	hexToken   = "9f86d081884c7d659a2feaa0c55ad015"
	command    = "curl -u admin:hunter2hunter2 https://mirror.example.com"
	privateKey = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\nQyNTUxOQAAACB\n-----END OPENSSH PRIVATE KEY-----\n"
)

func learned(secrets ...*corev1.Secret) *redactor {
	r := newRedactor()
	for _, secret := range secrets {
		r.learn(secret)
	}
	r.learned()
	return r
}

func TestTextsLoseTheirSecretsAndNothingElse(t *testing.T) {
	kubeconfig := "users:\n- name: admin\n  user:\n    client-key-data: " + shortKey + "\n    token: " + registry + "\n    other: " + hexToken + "\n  path: /var/lib/kok-apiserver-lb/servers-1\n"
	r := learned(
		&corev1.Secret{Data: map[string][]byte{"password": []byte(password), "username": []byte("kubernetes"), "ca.crt": []byte("kok-control-plane"), "enabled": []byte("true")}},
		&corev1.Secret{Data: map[string][]byte{"value": []byte(kubeconfig)}},
	)
	for name, test := range map[string]struct {
		text   string
		hidden []string
		kept   []string
	}{
		"a password that a Secret holds":           {"login with " + password + " failed", []string{password}, []string{"login with ", " failed"}},
		"its base64":                               {base64.StdEncoding.EncodeToString([]byte(password)), []string{base64.StdEncoding.EncodeToString([]byte(password))}, nil},
		"a part of a kubeconfig that a Secret has": {"got " + registry + " of the user", []string{registry}, []string{"of the user"}},
		"a token of lower case letters":            {"got " + hexToken, []string{hexToken}, []string{"got "}},
		"a path that a Secret has":                 {"read /var/lib/kok-apiserver-lb/servers-1", nil, []string{"/var/lib/kok-apiserver-lb/servers-1"}},
		"a kubeconfig":                             {"{\"client-key-data\":\"" + shortKey + "\"}", []string{shortKey}, []string{"client-key-data"}},
		"a kubeconfig of which nobody knows":       {"client-key-data: YWJj\nserver: https://10.0.0.1:6443", []string{"YWJj"}, []string{"https://10.0.0.1:6443"}},
		"a bootstrap token":                        {"token " + token + " is used", []string{"0123456789abcdef"}, []string{"is used"}},
		"a JSON web token":                         {"bearer " + jwt, []string{jwt}, nil},
		"a private key":                            {"key: " + privateKey, []string{"b3BlbnNzaC1rZXktdjE", "QyNTUxOQAAACB"}, []string{"key: "}},
		"the end of a private key that was cut":    {"QyNTUxOQAAACB\n-----END OPENSSH PRIVATE KEY-----\nnext line", []string{"QyNTUxOQAAACB"}, []string{"next line"}},
		"digests of images and containers stay": {
			"registry.k8s.io/etcd@sha256:" + strings.Repeat("0f", 32) + " runs as containerd://" + strings.Repeat("e1", 32), nil,
			[]string{strings.Repeat("0f", 32), strings.Repeat("e1", 32)}},
		"names and what is no secret in a Secret stay": {"kubernetes kok-control-plane true", nil, []string{"kubernetes", "kok-control-plane", "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := r.text(test.text)
			for _, secret := range test.hidden {
				if strings.Contains(got, secret) {
					t.Errorf("%q is in %q", secret, got)
				}
			}
			for _, kept := range test.kept {
				if !strings.Contains(got, kept) {
					t.Errorf("%q is not in %q", kept, got)
				}
			}
		})
	}
}

// Whoever may write Secrets of one namespace must not have those of others told.
func TestManyLinesOfSecretsHideNoOther(t *testing.T) {
	lines := func(count int) *corev1.Secret {
		var text strings.Builder
		for i := range count {
			fmt.Fprintf(&text, "Aa0%030d\n", i)
		}
		return &corev1.Secret{Data: map[string][]byte{"a": []byte(text.String())}}
	}
	one := &corev1.Secret{Data: map[string][]byte{"password": []byte(password)}}
	for name, test := range map[string]struct {
		secrets []*corev1.Secret
		unknown bool
	}{
		"as many lines as are looked for": {[]*corev1.Secret{lines(maxParts), one}, false},
		"one line more":                   {[]*corev1.Secret{lines(maxParts + 1), one}, true},
		"in many Secrets":                 {append(slices.Repeat([]*corev1.Secret{lines(maxParts)}, maxLearned/maxParts+1), one), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := learned(test.secrets...)
			if r.unknown != test.unknown {
				t.Errorf("lines are left out: %t", r.unknown)
			}
			if got := r.text("login with " + password); strings.Contains(got, password) {
				t.Errorf("it tells %q", got)
			}
		})
	}
}

const config = `
apiVersion: bootstrap.cluster.x-k8s.io/v1alpha1
kind: KOKConfig
metadata:
  name: blue-a
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"files":[{"content":"file content"}]}}'
    example.com/owner: somebody
  managedFields: [{manager: kubectl}]
spec:
  files:
  - path: /etc/secret.conf
    content: file content
    contentFrom: {secret: {name: settings, key: file}}
  preKubeletCommands:
  - "%s"
  users:
  - name: admin
    passwd: $6$rounds
    sshAuthorizedKeys: [ssh-ed25519 AAAA]
  env:
  - {name: REGISTRY_PASSWORD, value: plain-word}
  - {name: LEVEL, value: debug}
  discovery: {token: another}
status:
  bootstrapToken: {id: abcdef, expirationTime: "2026-03-01T12:00:00Z"}
`

func TestObjectsKeepTheirFormWithoutSecrets(t *testing.T) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, config, command), &object.Object); err != nil {
		t.Fatal(err)
	}
	learned().object(object)
	data, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"file content", "hunter2", "mirror.example.com", "$6$rounds", "plain-word", "another", "last-applied", "managedFields"} {
		if strings.Contains(string(data), secret) {
			t.Errorf("%q is in\n%s", secret, data)
		}
	}
	for _, kept := range []string{"/etc/secret.conf", "content: <redacted> (12 bytes)", "name: settings", "name: admin", "value: debug", "id: abcdef", "somebody", "expirationTime"} {
		if !strings.Contains(string(data), kept) {
			t.Errorf("%q is not in\n%s", kept, data)
		}
	}
}

func TestTheEndOfALogIsKeptInWholeLines(t *testing.T) {
	for name, test := range map[string]struct {
		log   string
		limit int64
		want  string
	}{
		"a short one is kept whole":                    {"one\ntwo\n", 100, "one\ntwo\n"},
		"of a long one the end, without a cut line":    {"first line\nsecond\nthird\n", 10, "third\n"},
		"of one line that is too long nothing is kept": {strings.Repeat("x", 200), 10, ""},
		"nothing is nothing":                           {"", 10, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := end(strings.NewReader(test.log), test.limit)
			if err != nil || string(got) != test.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	t.Run("and no log is read for ever, which is told", func(t *testing.T) {
		endless := strings.NewReader(strings.Repeat("line\n", 1<<20))
		if _, err := end(endless, 1<<10); endless.Len() == 0 || err == nil || !strings.Contains(err.Error(), "its end was left out") {
			t.Errorf("%d bytes are left, %v", endless.Len(), err)
		}
	})
	t.Run("and one that is just read to its end is whole", func(t *testing.T) {
		const limit = 10
		log := strings.Repeat("x", maxSkipped*limit-len("\nthe end\n")) + "\nthe end\n"
		if got, err := end(strings.NewReader(log), limit); err != nil || string(got) != "the end\n" {
			t.Errorf("%q, %v", got, err)
		}
	})
}
