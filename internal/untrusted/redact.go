package untrusted

import (
	"cmp"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

const (
	// shortest is the least length of a secret that is hidden: a shorter one may be part of any word.
	shortest = 4
	// unmistakable is the least length of a secret that cannot be an ordinary word of an object.
	unmistakable = 20
	// longest is how much is read of an answer that holds no object.
	longest = 1 << 20
)

// redactor is a transport that removes the connection's secrets from answers. A server or a proxy may quote what it was
// sent, and client-go quotes answers in errors and logs.
type redactor struct {
	inner   http.RoundTripper
	secrets []string
	words   *strings.Replacer
}

func redacting(inner http.RoundTripper, secrets []string) http.RoundTripper {
	return redactor{inner: inner, secrets: secrets, words: hiding(slices.Clone(secrets)...)}
}

// RoundTrip implements http.RoundTripper.
func (r redactor) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.inner.RoundTrip(request)
	if err != nil {
		return nil, without(r.words, err)
	}
	answer.Status = r.words.Replace(answer.Status)
	for _, values := range answer.Header {
		for i := range values {
			values[i] = r.words.Replace(values[i])
		}
	}
	watched := answer.StatusCode == http.StatusOK && IsWatch(request)
	if watched || answer.StatusCode < http.StatusMultipleChoices && isObject(answer) {
		answer.Body = redactBody(answer.Body, r.words, r.unmistakable(request))
		return answer, nil
	}
	if err := rewrite(answer, r.words); err != nil {
		return nil, without(r.words, err)
	}
	return answer, nil
}

// unmistakable are the secrets of a request that are hidden in objects, too: an object may be a Status that quotes the
// request. Short secrets could be words of an object and stay, but for the whole header.
func (r redactor) unmistakable(request *http.Request) []string {
	secrets := []string{request.Header.Get("Authorization")}
	for _, secret := range r.secrets {
		if len(secret) >= unmistakable {
			secrets = append(secrets, secret)
		}
	}
	return secrets
}

// isObject reports whether an answer is in a format of Kubernetes' objects.
func isObject(answer *http.Response) bool {
	format, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return err == nil && slices.Contains([]string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeCBOR}, format)
}

// rewrite hides secrets in the body of an answer that holds no object.
func rewrite(answer *http.Response, hide *strings.Replacer) error {
	defer answer.Body.Close() //nolint:errcheck // It is read.
	text := &strings.Builder{}
	if _, err := io.Copy(text, io.LimitReader(answer.Body, longest)); err != nil {
		return err
	}
	answer.ContentLength = int64(text.Len())
	answer.Body = io.NopCloser(strings.NewReader(hide.Replace(text.String())))
	return nil
}

// WithoutSecrets returns the error of a request that was made with the configuration, without the
// configuration's secrets.
func WithoutSecrets(config *rest.Config, err error) error {
	return without(hiding(secretsOf(config)...), err)
}

// without returns the error itself unless it quotes a secret. Then it returns a new error that wraps nothing, because the
// cause quotes the secret, too.
func without(hide *strings.Replacer, err error) error {
	text := err.Error()
	if hidden := hide.Replace(text); hidden != text {
		return errors.New(hidden)
	}
	return err
}

// hiding puts stars in place of secrets. The length stays the same, because protobuf has lengths in its messages. Longer
// secrets go first, because they may contain shorter ones.
func hiding(secrets ...string) *strings.Replacer {
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, secret := range secrets {
		if len(secret) >= shortest {
			pairs = append(pairs, secret, strings.Repeat("*", len(secret)))
		}
	}
	return strings.NewReplacer(pairs...)
}

// secretsOf returns the credentials for a host cluster and its proxy, also in the form in which they are sent.
func secretsOf(config *rest.Config) []string {
	secrets := []string{config.BearerToken}
	if config.Password != "" {
		secrets = append(secrets, config.Password, basic(config.Username, config.Password))
	}
	server, err := url.Parse(config.Host)
	if err != nil || config.Proxy == nil {
		return secrets
	}
	proxy, err := config.Proxy(&http.Request{URL: server})
	if err != nil || proxy == nil || proxy.User == nil {
		return secrets
	}
	password, _ := proxy.User.Password()
	return append(secrets, proxy.User.String(), password, basic(proxy.User.Username(), password))
}

// basic is what HTTP's basic authentication sends.
func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}
