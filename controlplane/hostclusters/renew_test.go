package hostclusters

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background/backgroundtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

const account = "team:kok-host-cluster"

// request gives tokens of the account unless a test has another answer.
func (n *network) request(_ context.Context, config *rest.Config, asked client.ObjectKey, seconds int64) (string, error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.tokens = append(n.tokens, fmt.Sprintf("%s for %ds by %s", asked, seconds, config.Host))
	if n.give != nil {
		return n.give()
	}
	return tokenOf(account, time.Now(), time.Now().Add(time.Duration(seconds)*time.Second)), nil
}

// renewals is how often a token was requested.
func (n *network) renewals() int {
	n.lock.Lock()
	defer n.lock.Unlock()
	return len(n.tokens)
}

// gives is the answer to requests of tokens from now on; nil for a token.
func (n *network) gives(give func() (string, error)) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.give = give
}

// holds is the token in the Secret.
func (s *story) holds() string {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := s.management.Get(s.t.Context(), hostSecret, secret); err != nil {
		s.t.Fatal(err)
	}
	config, err := untrusted.Config(secret.Data[controlplanev1.KubeconfigKey])
	if err != nil {
		s.t.Fatal(err)
	}
	return config.BearerToken
}

// begin connects by a token that begins now and lasts three hours, and gives it.
func (s *story) begin() string {
	s.t.Helper()
	token := tokenOf(account, time.Now(), time.Now().Add(3*time.Hour))
	s.writes("https://a", token)
	s.answer(nil)
	s.of(blue)
	synctest.Wait()
	return token
}

// warned is what a person is told, as a warning or with the reason why there is no host cluster.
func (s *story) warned() string {
	s.t.Helper()
	host, err := s.Of(s.t.Context(), blue, hostSecret, false)
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		return problem.Message
	case err != nil:
		s.t.Fatal(err)
	}
	return host.Warning
}

func TestFinding8ATokenIsRenewedWhenAThirdOfItsLifeIsLeft(t *testing.T) {
	tell(t, func(s *story) {
		first := s.begin()
		backgroundtest.After(2*time.Hour - time.Second)
		if s.renewals() != 0 || s.holds() != first {
			t.Errorf("before, it asked %d times", s.renewals())
		}
		woken := s.Count()
		backgroundtest.After(2 * time.Second)
		second := s.holds()
		if second == first || s.Count() <= woken {
			t.Fatalf("it is not renewed: %v", s.tokens)
		}
		if want := "team/kok-host-cluster for 10800s by https://a"; s.tokens[0] != want {
			t.Errorf("it asked for %q, want %q", s.tokens[0], want)
		}
		s.of(blue)
		synctest.Wait()
		s.expect("then it goes on", blue, "team/host#2")
		if s.warned() != "" || s.alive() != 1 {
			t.Errorf("%d connections, and it says %q", s.alive(), s.warned())
		}
		for range 24 {
			backgroundtest.After(time.Hour)
			s.of(blue)
		}
		if s.renewals() < 11 || s.renewals() > 13 {
			t.Errorf("in a day it asked %d times", s.renewals())
		}
	})
}

func TestFinding8OtherCredentialsStayAsTheyAre(t *testing.T) {
	tell(t, func(s *story) {
		s.connect(blue)
		backgroundtest.After(400 * 24 * time.Hour)
		if s.renewals() != 0 || s.holds() != "hidden-token" {
			t.Errorf("it asked for %v", s.tokens)
		}
	})
}

func TestFinding8ATokenThatIsNotRenewedIsToldOf(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts/token"}, "kok-host-cluster", errors.New("no right"))
	const way = "kubectl -n team create token kok-host-cluster --duration=10800s"
	tell(t, func(s *story) {
		s.begin()
		s.gives(func() (string, error) { return "", forbidden })
		backgroundtest.After(2*time.Hour + 20*time.Minute)
		if s.renewals() == 0 || s.warned() != "" {
			t.Errorf("after one failure of many it says %q", s.warned())
		}
		backgroundtest.After(15 * time.Minute)
		said, woken := s.warned(), s.Count()
		for _, want := range []string{"team/host ends at 2000-01-01T03:00:00Z and cannot be renewed", "kok-host-cluster", "is forbidden", way} {
			if !strings.Contains(said, want) {
				t.Errorf("it says %q, want %q", said, want)
			}
		}
		backgroundtest.After(15 * time.Minute)
		if s.Count() != woken || s.warned() != said {
			t.Errorf("the same words woke %d times", s.Count()-woken)
		}
		s.answer(errors.New("Unauthorized"))
		backgroundtest.After(15 * time.Minute)
		said = s.warned()
		if !strings.Contains(said, "Unauthorized") || !strings.Contains(said, "ended at 2000-01-01T03:00:00Z") || !strings.Contains(said, way) {
			t.Errorf("afterwards it says %q", said)
		}
		s.answer(nil)
		s.gives(nil)
		s.begin()
		if said := s.warned(); said != "" {
			t.Errorf("with another token it says %q", said)
		}
	})
}

func TestFinding8ATokenIsRenewedAfterFailures(t *testing.T) {
	tell(t, func(s *story) {
		first := s.begin()
		s.gives(func() (string, error) { return "", errors.New("connection refused") })
		backgroundtest.After(2*time.Hour + 50*time.Minute)
		if s.warned() == "" || s.holds() != first {
			t.Fatal("it does not say that it is not renewed")
		}
		s.gives(nil)
		backgroundtest.After(5 * time.Minute)
		s.of(blue)
		synctest.Wait()
		if said := s.warned(); said != "" || s.holds() == first {
			t.Errorf("it says %q", said)
		}
	})
}

func TestFinding8ATokenThatWouldNotHelpIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		given func() string
		says  string
	}{
		"none":                            {func() string { return "" }, "cannot be used: it is no JWT"},
		"one of another account":          {func() string { return tokenOf("team:other", time.Now(), time.Now().Add(time.Hour)) }, "another ServiceAccount"},
		"one that ends at once":           {func() string { return tokenOf(account, time.Now(), time.Now().Add(-time.Minute)) }, "cannot be used"},
		"one of a clock that is far away": {func() string { return tokenOf(account, time.Now().Add(-3*time.Hour), time.Now().Add(time.Hour)) }, "compare its clock"},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				first := s.begin()
				s.gives(func() (string, error) { return test.given(), nil })
				backgroundtest.After(2*time.Hour + 50*time.Minute)
				if said := s.warned(); s.holds() != first || !strings.Contains(said, test.says) {
					t.Errorf("it says %q, want %q", said, test.says)
				}
			})
		})
	}
}

// Another manager, or a person, may write the Secret while a token is asked for.
func TestFinding8AnotherContentOfTheSecretIsNotOverwritten(t *testing.T) {
	tell(t, func(s *story) {
		s.begin()
		meant := tokenOf(account, time.Now(), time.Now().Add(30*time.Hour))
		s.gives(func() (string, error) {
			s.writes("https://a", meant)
			return tokenOf(account, time.Now(), time.Now().Add(3*time.Hour)), nil
		})
		backgroundtest.After(2*time.Hour + 59*time.Minute)
		if s.holds() != meant || s.renewals() != 1 {
			t.Errorf("it asked %d times, and the Secret has another token: %t", s.renewals(), s.holds() != meant)
		}
	})
}

func TestFinding8APanicIsATokenThatIsNotRenewed(t *testing.T) {
	tell(t, func(s *story) {
		s.begin()
		s.gives(func() (string, error) { panic("fault") })
		backgroundtest.After(2*time.Hour + 50*time.Minute)
		if said := s.warned(); !strings.Contains(said, "cannot be renewed") {
			t.Errorf("it says %q", said)
		}
	})
}

func TestFinding8ATokenOfNobodyIsNotRenewed(t *testing.T) {
	tell(t, func(s *story) {
		s.begin()
		s.Release(blue)
		backgroundtest.After(3 * time.Hour)
		if s.renewals() != 0 {
			t.Errorf("it asked %d times", s.renewals())
		}
	})
}
