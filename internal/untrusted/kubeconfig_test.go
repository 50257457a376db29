package untrusted

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

// with is a kubeconfig with more in its cluster and its user.
func with(server, cluster, user string) string {
	return `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "` + server + `"` + cluster + `}}], users: [{name: u, user: {` + user + `}}]}`
}

func TestAKubeconfig(t *testing.T) {
	for name, test := range map[string]struct {
		kubeconfig string
		// says is empty for one that is taken.
		says string
	}{
		"with a token is taken":                       {with("https://a", "", "token: hidden"), ""},
		"with a proxy is taken":                       {with("https://a", ", proxy-url: 'http://me:hidden@proxy:3128'", "token: hidden"), ""},
		"that is none is refused":                     {"hidden: [", "cannot be read"},
		"without a context is refused":                {"{apiVersion: v1, kind: Config, current-context: hidden}", "current-context"},
		"without its user is refused":                 {strings.Replace(with("https://a", "", "token: hidden"), "user: u}", "user: v}", 1), "a user"},
		"that runs a program is refused":              {with("https://a", "", "exec: {apiVersion: client.authentication.k8s.io/v1, command: hidden, interactiveMode: Never}"), "exec is refused"},
		"with an auth provider is refused":            {with("https://a", "", "auth-provider: {name: hidden}"), "auth-provider is refused"},
		"with the file of a token is refused":         {with("https://a", "", "tokenFile: /hidden"), "use token"},
		"with the file of a certificate is refused":   {with("https://a", "", "client-certificate: /hidden, client-key-data: aGlkZGVu"), "use client-certificate-data"},
		"with the file of a key is refused":           {with("https://a", "", "client-certificate-data: aGlkZGVu, client-key: /hidden"), "use client-key-data"},
		"with the file of a CA is refused":            {with("https://a", ", certificate-authority: /hidden", "token: hidden"), "use certificate-authority-data"},
		"with a key that is none is refused":          {with("https://a", "", "client-certificate-data: aGlkZGVu, client-key-data: aGlkZGVu"), "must be PEM"},
		"with a CA that is none is refused":           {with("https://a", ", certificate-authority-data: aGlkZGVu", "token: hidden"), "must be PEM"},
		"that trusts everybody is refused":            {with("https://a", ", insecure-skip-tls-verify: true", "token: hidden"), "insecure-skip-tls-verify is refused"},
		"in plain text is refused":                    {with("http://a", "", "token: hidden"), "https URL"},
		"with a password in its server is refused":    {with("https://me:hidden@a", "", "token: hidden"), "https URL"},
		"with a proxy that cannot be read is refused": {with("https://a", ", proxy-url: 'http://me:hidden@['", "token: hidden"), "proxy-url"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Config([]byte(test.kubeconfig))
			switch {
			case test.says == "" && err != nil:
				t.Errorf("got %v", err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, want %q", err, test.says)
			case err != nil && (strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "aGlkZGVu")):
				t.Errorf("it quotes the content: %v", err)
			}
		})
	}
}

func TestFinding8AnotherTokenChangesNothingElse(t *testing.T) {
	before := strings.Replace(with("https://a", ", proxy-url: 'http://proxy:3128', tls-server-name: b", "token: hidden"), "users: [", "users: [{name: v, user: {token: theirs}}, ", 1)
	renewed, err := WithToken([]byte(before), "another")
	if err != nil {
		t.Fatal(err)
	}
	was, err := clientcmd.Load([]byte(before))
	if err != nil {
		t.Fatal(err)
	}
	is, err := clientcmd.Load(renewed)
	if err != nil {
		t.Fatal(err)
	}
	was.AuthInfos["u"].Token = "another"
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	for name, broken := range map[string]string{"that is none": "hidden: [", "without a context": "{apiVersion: v1, kind: Config, current-context: hidden}"} {
		if _, err := WithToken([]byte(broken), "another"); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("of one %s: %v", name, err)
		}
	}
}
