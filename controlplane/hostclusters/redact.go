package hostclusters

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// shortest is the length of a secret that can be told from a word by chance.
const shortest = 4

// text is an error in words for conditions, without the secrets of a connection: whoever answers at its address, or
// at that of its proxy, may send back what it was sent.
func text(err error, config *rest.Config) string {
	said := errortext.Steady(err)
	for _, secret := range secretsOf(config) {
		if len(secret) >= shortest {
			said = strings.ReplaceAll(said, secret, "(secret)")
		}
	}
	return said
}

func secretsOf(config *rest.Config) []string {
	secrets := []string{config.BearerToken, config.Password}
	server, err := url.Parse(config.Host)
	if err != nil || config.Proxy == nil {
		return secrets
	}
	proxy, err := config.Proxy(&http.Request{URL: server})
	if err != nil || proxy == nil || proxy.User == nil {
		return secrets
	}
	password, _ := proxy.User.Password()
	return append(secrets, proxy.User.String(), password)
}
