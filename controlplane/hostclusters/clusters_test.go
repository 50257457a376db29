package hostclusters

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background/backgroundtest"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

var (
	hostSecret = client.ObjectKey{Namespace: "team", Name: "host"}
	blue       = client.ObjectKey{Namespace: "team", Name: "blue"}
	red        = client.ObjectKey{Namespace: "team", Name: "red"}
)

// network is where host clusters are, by their address. One that is not there yet holds who connects.
type network struct {
	lock sync.Mutex
	// answers are what hosts answer; nil is well. Who is not in it is silent, as https://b always is.
	answers map[string]error
	opened  []opening
	lives   []context.Context
	// tokens are the requests of tokens, give the answer to them; nil for a token.
	tokens []string
	give   func() (string, error)
}

// answer is what https://a answers from now on.
func (n *network) answer(err error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.answers["https://a"] = err
}

func (n *network) ask(server string) (there bool, answer error) {
	n.lock.Lock()
	defer n.lock.Unlock()
	answer, there = n.answers[server]
	return there, answer
}

func (n *network) open(ctx context.Context, o opening) (*Host, func(context.Context) error, error) {
	n.lock.Lock()
	n.opened, n.lives = append(n.opened, o), append(n.lives, ctx)
	n.lock.Unlock()
	check := func(context.Context) error {
		there, answer := n.ask(o.config.Host)
		if !there {
			return errors.New("silent")
		}
		return answer
	}
	if there, _ := n.ask(o.config.Host); !there {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(openTimeout):
			return nil, nil, fmt.Errorf("no answer within %v", openTimeout)
		}
	}
	if err := check(ctx); err != nil {
		return nil, nil, err
	}
	return &Host{Identity: o.identity}, check, nil
}

// alive is how many connections there are.
func (n *network) alive() int {
	n.lock.Lock()
	defer n.lock.Unlock()
	count := 0
	for _, life := range n.lives {
		if life.Err() == nil {
			count++
		}
	}
	return count
}

// story is a test with a management cluster and a network, in a bubble that fails when a goroutine is left.
type story struct {
	*Clusters
	*network
	*backgroundtest.Woken
	t          *testing.T
	management client.Client
}

func tell(t *testing.T, test func(s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := &network{answers: map[string]error{}}
		management := fake.NewClientBuilder().Build()
		s := &story{
			Clusters: newClusters(management, management, n.open, n.request), network: n, Woken: &backgroundtest.Woken{}, t: t, management: management,
		}
		nobody := func(context.Context, client.Object) []reconcile.Request { return nil }
		if err := s.Source(nobody).Start(ctx, s.Woken); err != nil {
			t.Fatal(err)
		}
		test(s)
	})
}

func kubeconfig(server string) string { return kubeconfigWith(server, "hidden-token") }

func kubeconfigWith(server, token string) string {
	return `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "` + server + `"}}], users: [{name: u, user: {token: ` + token + `}}]}`
}

// names writes the Secret.
func (s *story) names(server string) {
	s.t.Helper()
	s.writes(server, "hidden-token")
}

// writes writes the Secret with a token.
func (s *story) writes(server, token string) {
	s.t.Helper()
	data := map[string][]byte{controlplanev1.KubeconfigKey: []byte(kubeconfigWith(server, token))}
	present := &corev1.Secret{}
	err := s.management.Get(s.t.Context(), hostSecret, present)
	if err == nil {
		present.Data = data
		err = s.management.Update(s.t.Context(), present)
	} else {
		err = s.management.Create(s.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: hostSecret.Namespace, Name: hostSecret.Name}, Data: data,
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// of is the host cluster's identity, or the reason why there is none.
func (s *story) of(user client.ObjectKey) string {
	s.t.Helper()
	return s.asked(user, false)
}

// leaving is the same for a control plane that is being deleted.
func (s *story) leaving(user client.ObjectKey) string {
	s.t.Helper()
	return s.asked(user, true)
}

func (s *story) asked(user client.ObjectKey, leaving bool) string {
	s.t.Helper()
	host, err := s.Of(s.t.Context(), user, hostSecret, leaving)
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		return problem.Reason
	case err != nil:
		s.t.Fatal(err)
	}
	return host.Identity
}

func (s *story) expect(when string, user client.ObjectKey, want string) {
	s.t.Helper()
	if got := s.of(user); got != want {
		s.t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

// connect gives users the connection to a host cluster that answers.
func (s *story) connect(users ...client.ObjectKey) {
	s.t.Helper()
	s.names("https://a")
	s.answer(nil)
	for _, user := range users {
		s.of(user)
	}
	synctest.Wait()
}

func TestAHostClusterIsConnectedToInTheBackground(t *testing.T) {
	tell(t, func(s *story) {
		s.names("https://a")
		s.answer(nil)
		s.expect("at once", blue, conditionsv1.HostClusterConnectingReason)
		synctest.Wait()
		if s.Count() != 1 {
			t.Errorf("woken %d times", s.Count())
		}
		s.expect("then", blue, "team/host#1")
		s.expect("for another control plane", red, "team/host#1")
		backgroundtest.After(time.Hour)
		if s.Count() != 1 || len(s.opened) != 1 {
			t.Errorf("settled, it woke %d times and connected %d times", s.Count(), len(s.opened))
		}
	})
}

func TestTheSecretIsTakenAlongByAMove(t *testing.T) {
	tell(t, func(s *story) {
		s.names("https://a")
		s.of(blue)
		secret := &corev1.Secret{}
		if err := s.management.Get(t.Context(), hostSecret, secret); err != nil {
			t.Fatal(err)
		}
		if _, ok := secret.Labels[clusterctlv1.ClusterctlMoveLabel]; !ok || len(secret.OwnerReferences) > 0 {
			t.Errorf("labels %v, owners %v", secret.Labels, secret.OwnerReferences)
		}
		version := secret.ResourceVersion
		s.of(blue)
		if err := s.management.Get(t.Context(), hostSecret, secret); err != nil || secret.ResourceVersion != version {
			t.Error("it is written again")
		}
	})
}

func TestAKubeconfigThatChangesAndComesBackWhileItConnectsIsConnectedTo(t *testing.T) {
	tell(t, func(s *story) {
		s.connect(blue)
		s.expect("with the first", blue, "team/host#1")
		s.names("https://b")
		s.expect("with the second, which is silent", blue, conditionsv1.HostClusterConnectingReason)
		synctest.Wait()
		s.names("https://a")
		s.expect("back to the first", blue, conditionsv1.HostClusterConnectingReason)
		synctest.Wait()
		s.expect("then", blue, "team/host#3")
		if s.alive() != 1 || s.lives[2].Err() != nil {
			t.Errorf("%d connections last, the one that is handed out: %v", s.alive(), s.lives[2].Err())
		}
	})
}

func TestAnOldReadingOfTheSecretDoesNotBringTheOldConnectionBack(t *testing.T) {
	tell(t, func(s *story) {
		config, err := untrusted.Config([]byte(kubeconfig("https://a")))
		if err != nil {
			t.Fatal(err)
		}
		s.answer(nil)
		for _, reading := range []struct{ version, content string }{{"7", "new"}, {"5", "old"}, {"8", "new"}} {
			_, _ = s.use(blue, hostSecret, reading.version, []byte(reading.content), config)
		}
		synctest.Wait()
		if len(s.opened) != 1 {
			t.Errorf("connected %d times", len(s.opened))
		}
	})
}

func (s *story) deleteSecret() {
	s.t.Helper()
	if err := s.management.Delete(s.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "host"}}); err != nil {
		s.t.Fatal(err)
	}
}

func TestADeletionGoesOnWithoutTheSecretByTheConnectionThatThereIs(t *testing.T) {
	tell(t, func(s *story) {
		s.connect(blue)
		open := s.of(blue)
		s.of(red)
		s.deleteSecret()
		if got := s.leaving(blue); got != open {
			t.Errorf("it got %q, want %q", got, open)
		}
		s.expect("one that is not being deleted", red, conditionsv1.InvalidHostKubeconfigReason)
		if got := s.leaving(blue); got != open {
			t.Errorf("after another was refused it got %q, want %q", got, open)
		}
		s.Release(blue)
		s.Release(red)
		synctest.Wait()
		if s.alive() != 0 {
			t.Error("the connection lasts")
		}
		if got := s.leaving(blue); got != conditionsv1.InvalidHostKubeconfigReason {
			t.Errorf("without a connection it got %q", got)
		}
	})
}

func TestADeletionDoesNotGoOnWithAKubeconfigThatIsRefused(t *testing.T) {
	tell(t, func(s *story) {
		s.connect(blue)
		s.names("http://a")
		if got := s.leaving(blue); got != conditionsv1.InvalidHostKubeconfigReason || s.alive() != 0 {
			t.Errorf("it got %q by %d connections", got, s.alive())
		}
	})
}

func TestANamespaceWhoseSecretsGoFirstIsDeletedByTheConnectionThatThereIs(t *testing.T) {
	tell(t, func(s *story) {
		s.connect(blue)
		open := s.of(blue)
		s.deleteSecret()
		s.expect("before it is deleted itself", blue, conditionsv1.InvalidHostKubeconfigReason)
		backgroundtest.After(grace - time.Second)
		s.expect("while it may be deleted yet", blue, conditionsv1.InvalidHostKubeconfigReason)
		if got := s.leaving(blue); got != open {
			t.Errorf("it got %q, want %q", got, open)
		}
	})
}

func TestASecretThatIsMadeAgainIsMissedAnew(t *testing.T) {
	tell(t, func(s *story) {
		s.connect(blue)
		for range 2 {
			s.deleteSecret()
			s.of(blue)
			backgroundtest.After(grace - time.Second)
			s.names("https://a")
			s.expect("when it is back", blue, "team/host#1")
			backgroundtest.After(2 * time.Second)
		}
	})
}

func TestWithdrawnCredentialsEndTheConnection(t *testing.T) {
	for name, withdraw := range map[string]func(*story){
		"the Secret is gone, also some time later": func(s *story) {
			s.deleteSecret()
			s.of(blue)
			backgroundtest.After(grace)
		},
		"the kubeconfig is refused": func(s *story) { s.names("http://a") },
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				s.connect(blue)
				withdraw(s)
				s.expect("then", blue, conditionsv1.InvalidHostKubeconfigReason)
				if s.alive() != 0 {
					t.Error("the connection lasts")
				}
			})
		})
	}
}

func TestAConnectionLastsAsLongAsSomebodyUsesIt(t *testing.T) {
	tell(t, func(s *story) {
		s.connect(blue, red)
		s.Release(blue)
		synctest.Wait()
		if s.alive() != 1 {
			t.Error("it ended with its first user")
		}
		s.Release(red)
		synctest.Wait()
		if s.alive() != 0 || len(s.connections) != 0 {
			t.Error("it lasts without a user")
		}
	})
}

func TestAHostClusterThatIsSilentIsTriedAgain(t *testing.T) {
	tell(t, func(s *story) {
		s.names("https://a")
		s.of(blue)
		backgroundtest.After(openTimeout - time.Second)
		s.expect("while it may answer", blue, conditionsv1.HostClusterConnectingReason)
		backgroundtest.After(2 * time.Second)
		s.expect("after the time-out", blue, conditionsv1.HostClusterUnreachableReason)
		s.answer(nil)
		backgroundtest.After(openTimeout + lastRetry)
		s.expect("when it answers", blue, "team/host#1")
	})
}

func TestTriesGetRarerAndSayTheSame(t *testing.T) {
	tell(t, func(s *story) {
		s.names("https://a")
		s.answer(errors.New("dial tcp 10.0.0.1:4711->10.0.0.2:6443: connection refused"))
		s.of(blue)
		backgroundtest.After(10 * time.Minute)
		if n := len(s.opened); n < 10 || n > 20 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		if s.Count() != 1 {
			t.Errorf("the same words woke %d times", s.Count())
		}
	})
}

func TestAHostClusterThatGoesAwayAndComesBackKeepsItsConnection(t *testing.T) {
	tell(t, func(s *story) {
		s.connect(blue)
		s.answer(errors.New("no route to host"))
		backgroundtest.After(checkInterval + time.Second)
		s.expect("after one missing answer", blue, "team/host#1")
		backgroundtest.After(checkInterval)
		s.expect("after two", blue, conditionsv1.HostClusterUnreachableReason)
		s.answer(nil)
		backgroundtest.After(checkInterval)
		s.expect("when it is back", blue, "team/host#1")
		if s.Count() != 3 || len(s.opened) != 1 {
			t.Errorf("woken %d times, connected %d times", s.Count(), len(s.opened))
		}
	})
}

func TestAPanicIsAHostClusterThatCannotBeUsed(t *testing.T) {
	tell(t, func(s *story) {
		var faulty atomic.Bool
		fault := func() {
			if faulty.Load() {
				panic(new(int))
			}
		}
		s.Clusters.open = func(ctx context.Context, o opening) (*Host, func(context.Context) error, error) {
			fault()
			host, check, err := s.network.open(ctx, o)
			return host, func(ctx context.Context) error { fault(); return check(ctx) }, err
		}
		s.names("https://a")
		s.answer(nil)
		faulty.Store(true)
		s.of(blue)
		backgroundtest.After(10 * time.Minute)
		s.expect("while connecting panics", blue, conditionsv1.HostClusterUnreachableReason)
		if s.Count() != 1 {
			t.Errorf("panics woke %d times", s.Count())
		}
		faulty.Store(false)
		backgroundtest.After(lastRetry)
		s.expect("when it no longer does", blue, "team/host#1")
		faulty.Store(true)
		backgroundtest.After(patience*checkInterval + time.Second)
		s.expect("while checks panic", blue, conditionsv1.HostClusterUnreachableReason)
	})
}
