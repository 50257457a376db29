package hostclusters

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// longestToken bounds what is read of a token, in bytes: API servers give less than 2 KiB.
	longestToken = 16 << 10
	// lastSecond is the end of the year 9999, the last one that can be written as RFC 3339.
	lastSecond = 253402300799
	// shortestLife and longestLife are the bounds of a TokenRequest, in seconds.
	shortestLife = 10 * 60
	longestLife  = 1 << 32
)

// accountToken holds the claims of a service account's token. They are not verified here: the host cluster does that.
type accountToken struct {
	account         client.ObjectKey
	issued, expires time.Time
}

// readToken reads a token of a service account that ends: a JWT by RFC 7519. Errors hold nothing of the token.
func readToken(token string) (accountToken, error) {
	if len(token) > longestToken {
		return accountToken{}, fmt.Errorf("it has more than %d bytes", longestToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return accountToken{}, errors.New("it is no JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return accountToken{}, errors.New("it is no JWT")
	}
	var claims struct {
		Subject  string `json:"sub"`
		IssuedAt int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return accountToken{}, errors.New("its claims cannot be read")
	}
	namespace, name, err := serviceaccount.SplitUsername(claims.Subject)
	if err != nil {
		return accountToken{}, errors.New("its subject is no service account")
	}
	if claims.IssuedAt <= 0 || claims.Expires <= claims.IssuedAt || claims.Expires > lastSecond {
		return accountToken{}, errors.New("it does not say how long it lasts")
	}
	return accountToken{
		account: client.ObjectKey{Namespace: namespace, Name: name},
		issued:  time.Unix(claims.IssuedAt, 0), expires: time.Unix(claims.Expires, 0),
	}, nil
}

// seconds is the life that is requested for the next token: that of this one, which a person chose.
func (t accountToken) seconds() int64 {
	return min(max(t.expires.Unix()-t.issued.Unix(), shortestLife), longestLife)
}

// before is a time when some part of the token's life is left.
func (t accountToken) before(part int64) time.Time {
	return time.Unix(t.expires.Unix()-(t.expires.Unix()-t.issued.Unix())/part, 0)
}

// due is when the token is renewed: when a third of its life is left.
func (t accountToken) due() time.Time { return t.before(3) }

// told is when a person is told that it is not renewed: half of the time for that has passed by then.
func (t accountToken) told() time.Time { return t.before(6) }

// retry is how soon a renewal that failed is tried again: at least some times before the token ends.
func (t accountToken) retry() time.Duration {
	return min(max(time.Duration(t.seconds()/60)*time.Second, 10*time.Second), 10*time.Minute)
}
