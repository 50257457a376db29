package untrusted

import (
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// word is the secret of the seeds, which no error may have.
const word = "s3cr3t-w0rd"

// FuzzKubeconfigs: whoever writes a kubeconfig's Secret leads the manager to a server by TLS that is verified, and nowhere
// else: no file is read, no program run. What is accepted is accepted the same when it is written again.
func FuzzKubeconfigs(f *testing.F) {
	const seed = `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://a.example:6443"}}], users: [{name: u, user: {token: ` + word + `}}]}`
	for _, field := range []string{
		"", "tokenFile: /var/run/secrets/token", "exec: {command: id, apiVersion: client.authentication.k8s.io/v1}", "auth-provider: {name: oidc}", "client-certificate: /a", "client-key: /a",
		"username: a, password: b", "as: root", "client-certificate-data: YQ==, client-key-data: YQ==",
	} {
		f.Add([]byte(strings.Replace(seed, "token: "+word, "token: "+word+", "+field, 1)))
	}
	for _, field := range []string{"insecure-skip-tls-verify: true", "certificate-authority: /a", "certificate-authority-data: YQ==", "proxy-url: 'socks5://a.example:1'", "proxy-url: a", "tls-server-name: b"} {
		f.Add([]byte(strings.Replace(seed, "server:", field+", server:", 1)))
	}
	for _, server := range []string{"http://a.example", "https://u:" + word + "@a.example", "https://", "a.example:6443", "https://a.example/b?c#d", "https://[::1]:6443", "https://%zz"} {
		f.Add([]byte(strings.Replace(seed, "https://a.example:6443", server, 1)))
	}
	f.Add([]byte(strings.Replace(seed, "current-context: x", "current-context: y", 1)))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Config(data)
		if err != nil {
			if strings.Contains(err.Error(), word) {
				t.Errorf("the error has the secret: %v", err)
			}
			return
		}
		server, err := url.Parse(config.Host)
		if err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil {
			t.Errorf("it leads to %q, %v", config.Host, err)
		}
		if config.Insecure || config.ExecProvider != nil || config.AuthProvider != nil || config.BearerTokenFile != "" || config.CAFile != "" || config.CertFile != "" || config.KeyFile != "" {
			t.Errorf("it reads files, runs programs or verifies nobody: %s", config)
		}
		parsed, err := clientcmd.Load(data)
		if err != nil {
			t.Fatal(err)
		}
		written, err := clientcmd.Write(*parsed)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Config(written); err != nil || again.Host != config.Host || again.BearerToken != config.BearerToken {
			t.Errorf("written again it is another: %v", err)
		}
		renewed, err := WithToken(data, "another")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Config(renewed); err != nil || again.Host != config.Host || again.BearerToken != "another" {
			t.Errorf("with another token it is another: %v", err)
		}
	})
}
