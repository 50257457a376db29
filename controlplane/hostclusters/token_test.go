package hostclusters

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// jwt is a token with these claims, as JSON, that nobody signed.
func jwt(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("signature"))
}

// tokenOf is a token of a service account.
func tokenOf(account string, issued, expires time.Time) string {
	return jwt(fmt.Sprintf(`{"sub":"system:serviceaccount:%s","iat":%d,"exp":%d}`, account, issued.Unix(), expires.Unix()))
}

func TestFinding8ATokenThatEnds(t *testing.T) {
	const claims = `{"aud":["a"],"sub":"system:serviceaccount:team:kok-host-cluster","iat":1000,"nbf":1000,"exp":4600,"kubernetes.io":{"namespace":"team"}}`
	for name, test := range map[string]struct {
		token string
		// says is empty for one that is read.
		says string
	}{
		"of a service account is read":            {jwt(claims), ""},
		"of nothing is none":                      {"", "no JWT"},
		"of a static file is none":                {"31ada4fd-adec-460c-809a-9e56ceb75269", "no JWT"},
		"of bootstrap is none":                    {"abcdef.0123456789abcdef", "no JWT"},
		"of other letters is none":                {"a.+/=.c", "no JWT"},
		"without JSON is none":                    {jwt("claims"), "claims"},
		"with words for times is none":            {jwt(strings.Replace(claims, "4600", `"4600"`, 1)), "claims"},
		"with a part of a second is none":         {jwt(strings.Replace(claims, "4600", "4600.5", 1)), "claims"},
		"of a person is none":                     {jwt(strings.Replace(claims, "system:serviceaccount:team:kok-host-cluster", "jane", 1)), "no service account"},
		"of an account with a path is none":       {jwt(strings.Replace(claims, "kok-host-cluster", "../secrets", 1)), "no service account"},
		"of a namespace that cannot be is none":   {jwt(strings.Replace(claims, ":team:", ":Team:", 1)), "no service account"},
		"that lasts for ever stays as it is":      {jwt(strings.Replace(claims, `,"exp":4600`, "", 1)), "how long"},
		"that does not say since when is none":    {jwt(strings.Replace(claims, `"iat":1000,`, "", 1)), "how long"},
		"that ended before it began is none":      {jwt(strings.Replace(claims, "4600", "1000", 1)), "how long"},
		"that ends after the year 9999 is none":   {jwt(strings.Replace(claims, "4600", "253402300800", 1)), "how long"},
		"that is longer than any is not read":     {jwt(`{"a":"` + strings.Repeat("a", longestToken) + `"}`), "more than 16384 bytes"},
		"whose numbers are larger is none":        {jwt(strings.Replace(claims, "4600", "1e400", 1)), "claims"},
		"with more after its signature is none":   {jwt(claims) + ".more", "no JWT"},
		"with the padding that JWTs lack is none": {"a." + base64.URLEncoding.EncodeToString([]byte(`{"a":"bc"}`)) + ".c", "no JWT"},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := readToken(test.token)
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v, want %q", err, test.says)
				}
				return
			}
			want := accountToken{client.ObjectKey{Namespace: "team", Name: "kok-host-cluster"}, time.Unix(1000, 0), time.Unix(4600, 0)}
			if err != nil || read != want {
				t.Errorf("got %+v, %v", read, err)
			}
		})
	}
}

func TestFinding8WhenATokenIsRenewed(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		life time.Duration
		// due and told are since its beginning.
		due, told, retry time.Duration
		seconds          int64
	}{
		"of ten minutes":   {10 * time.Minute, 6*time.Minute + 40*time.Second, 8*time.Minute + 20*time.Second, 10 * time.Second, 600},
		"of an hour":       {time.Hour, 40 * time.Minute, 50 * time.Minute, time.Minute, 3600},
		"of a month":       {30 * day, 20 * day, 25 * day, 10 * time.Minute, 2592000},
		"of a century":     {36525 * day, 24350 * day, 36525*day - 36525*day/6, 10 * time.Minute, 3155760000},
		"of a long life":   {150 * 365 * day, 100 * 365 * day, 125 * 365 * day, 10 * time.Minute, 4294967296},
		"of three seconds": {3 * time.Second, 2 * time.Second, 3 * time.Second, 10 * time.Second, 600},
	} {
		t.Run(name, func(t *testing.T) {
			issued := time.Unix(1000, 0)
			token := accountToken{issued: issued, expires: issued.Add(test.life)}
			if due, told := token.due().Sub(issued), token.told().Sub(issued); due != test.due || told != test.told {
				t.Errorf("it is due after %v and told of after %v", due, told)
			}
			if token.retry() != test.retry || token.seconds() != test.seconds {
				t.Errorf("it is tried again after %v, for %d seconds", token.retry(), token.seconds())
			}
		})
	}
}

// FuzzTokens reads tokens that writers of the Secret choose, and servers in place of a host cluster. What is read of one
// asks for a token by a path of its own API alone, and neither at once again nor never.
func FuzzTokens(f *testing.F) {
	for _, claims := range []string{
		`{"sub":"system:serviceaccount:team:a","iat":1000,"exp":4600}`, `{"sub":"system:serviceaccount:team:..","iat":1000,"exp":4600}`,
		`{"sub":"system:serviceaccount:team:a/b","iat":1,"exp":253402300799}`, `{"sub":"a","iat":-1,"exp":1e18}`, `{}`, `[]`, ``,
	} {
		f.Add(jwt(claims))
	}
	f.Add("a.b")
	f.Fuzz(func(t *testing.T, raw string) {
		token, err := readToken(raw)
		if err != nil {
			for _, part := range strings.Split(raw, ".") {
				if len(part) > 20 && strings.Contains(err.Error(), part) {
					t.Errorf("the error has the token: %v", err)
				}
			}
			return
		}
		if strings.ContainsAny(token.account.Namespace+token.account.Name, "/%?#") || token.account.Namespace == "" || token.account.Name == "" || strings.Trim(token.account.Name, ".") == "" {
			t.Errorf("it is of %s", token.account)
		}
		if token.due().Before(token.issued) || token.told().Before(token.due()) || token.told().After(token.expires) || token.retry() < time.Second || token.seconds() < shortestLife {
			t.Errorf("%+v is due at %v, told of at %v, tried again after %v for %d seconds", token, token.due(), token.told(), token.retry(), token.seconds())
		}
	})
}
