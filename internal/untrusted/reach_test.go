package untrusted

import (
	"strings"
	"testing"
)

func TestFinding1AKubeconfigReachesNothingOfWhoUsesIt(t *testing.T) {
	beside := func(user string) string {
		return strings.Replace(with("https://a", "", "token: hidden"), "users: [", "users: [{name: v, user: {"+user+"}}, ", 1)
	}
	for name, test := range map[string]struct {
		kubeconfig string
		// says is empty for one that passes.
		says string
	}{
		"with a token passes":                                {with("https://a", "", "token: hidden"), ""},
		"with a proxy passes":                                {with("https://a", ", proxy-url: 'http://proxy:3128'", "token: hidden"), ""},
		"that trusts everybody passes":                       {with("https://a", ", insecure-skip-tls-verify: true", "token: hidden"), ""},
		"that is none passes":                                {"#cloud-config\nhidden: [", ""},
		"without a context passes":                           {"{apiVersion: v1, kind: Config}", ""},
		"with the file of a token is refused":                {with("https://a", "", "tokenFile: /hidden"), "tokenFile is refused"},
		"with the file in other letters is refused":          {with("https://a", "", `"token\u0046ile": /hidden`), "tokenFile is refused"},
		"with the file in another context is refused":        {beside("tokenFile: /hidden"), "tokenFile is refused"},
		"with the file of a CA is refused":                   {with("https://a", ", certificate-authority: /hidden", "token: hidden"), "certificate-authority is refused"},
		"with the file of a key is refused":                  {with("https://a", "", "client-key: /hidden"), "client-key is refused"},
		"that runs a program is refused":                     {with("https://a", "", "exec: {apiVersion: client.authentication.k8s.io/v1, command: hidden, interactiveMode: Never}"), "exec is refused"},
		"with an auth provider is refused":                   {with("https://a", "", "auth-provider: {name: hidden}"), "auth-provider is refused"},
		"that is JSON, with the file of a token, is refused": {`{"apiVersion":"v1","kind":"Config","users":[{"name":"u","user":{"tokenFile":"/hidden"}}]}`, "tokenFile is refused"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckReach([]byte(test.kubeconfig))
			switch {
			case test.says == "" && err != nil:
				t.Errorf("got %v", err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, want %q", err, test.says)
			case err != nil && strings.Contains(err.Error(), "hidden"):
				t.Errorf("it quotes the content: %v", err)
			}
		})
	}
}
