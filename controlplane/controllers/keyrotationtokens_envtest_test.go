//go:build envtest

package controllers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// A token is tried at a real kube-apiserver that has the arguments and the files which API servers are rendered with: before a rotation,
// in its middle and after it.
func TestTokensOfTheFormerKeyAreGoodUntilItIsDropped(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt, data := beforeRotation(t), t.TempDir()
	born := tt.serviceAccountArguments()
	var former, next string
	tt.serve(data, born, func(s *served) {
		s.makeServiceAccount()
		former = s.token()
		s.takes("the first key's", former, true)
	})

	tt.prepareKeys()
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if now := tt.rotationNow(); now.Phase != rotation.Trusting {
		t.Fatalf("it is %s", now.Phase)
	}
	trusting := tt.serviceAccountArguments()
	tt.settle()
	using := tt.serviceAccountArguments()
	tt.serve(data, using, func(s *served) {
		next = s.token()
		s.takes("the former key's", former, true)
		s.takes("the new key's", next, true)
	})
	// While API servers come to use the new key, those that do not yet take its tokens.
	tt.serve(data, trusting, func(s *served) {
		s.takes("the former key's", former, true)
		s.takes("the new key's", next, true)
	})
	// Without the first rollout they would not.
	tt.serve(data, born, func(s *served) { s.takes("the new key's", next, false) })

	tt.completeKeys("pod-tokens/" + tt.file())
	tt.settle()
	if now := tt.rotationNow(); now.Phase != rotation.Over {
		t.Fatalf("it is %s", now.Phase)
	}
	tt.serve(data, tt.serviceAccountArguments(), func(s *served) {
		s.takes("the former key's", former, false)
		s.takes("the new key's", next, true)
		s.takes("another one of the new key", s.token(), true)
	})
}

// serviceAccountArguments are the arguments of the rendered API server that are about service accounts, with files of the present
// key material.
func (tt *tenantTest) serviceAccountArguments() map[string][]string {
	tt.t.Helper()
	set, files, dir := &appsv1.DaemonSet{}, tt.keyMaterial(), tt.t.TempDir()
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-kube-apiserver"), set); err != nil {
		tt.t.Fatal(err)
	}
	arguments := map[string][]string{}
	for _, arg := range set.Spec.Template.Spec.Containers[0].Args {
		flag, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(flag, "service-account-") {
			continue
		}
		if file, found := strings.CutPrefix(value, components.KeyMaterialDirectory+"/"); found {
			value = filepath.Join(dir, file)
			if err := os.WriteFile(value, files[file], 0o600); err != nil {
				tt.t.Fatal(err)
			}
		}
		arguments[flag] = append(arguments[flag], value)
	}
	return arguments
}

// served is a kube-apiserver that serves.
type served struct {
	t     *testing.T
	admin *rest.Config
}

// serve runs a kube-apiserver with these arguments and an etcd with these data, for as long as use takes.
func (tt *tenantTest) serve(data string, arguments map[string][]string, use func(*served)) {
	tt.t.Helper()
	plane := &envtest.ControlPlane{Etcd: &envtest.Etcd{DataDir: data}, APIServer: &envtest.APIServer{}}
	for flag, values := range arguments {
		plane.APIServer.Configure().Set(flag, values...)
	}
	stop, err := interrupt.Guard(plane.Start, plane.Stop)
	if err != nil {
		tt.t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			tt.t.Error(err)
		}
	}()
	admin, err := plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		tt.t.Fatal(err)
	}
	use(&served{t: tt.t, admin: admin.Config()})
}

func (s *served) clients(config *rest.Config) kubernetes.Interface {
	s.t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return clients
}

func (s *served) makeServiceAccount() {
	s.t.Helper()
	accounts := s.clients(s.admin).CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	// The API server makes the namespace a moment after it is ready.
	if err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}}, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}); err != nil {
		s.t.Fatal(err)
	}
}

// token is one that this API server signs.
func (s *served) token() string {
	s.t.Helper()
	answer, err := s.clients(s.admin).CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(s.t.Context(), "builder", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.Status.Token
}

// takes fails unless the API server accepts a token, or refuses it with 401.
func (s *served) takes(what, token string, want bool) {
	s.t.Helper()
	config := rest.AnonymousClientConfig(s.admin)
	config.BearerToken = token
	answer, err := s.clients(config).AuthenticationV1().SelfSubjectReviews().Create(s.t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case want && (err != nil || answer.Status.UserInfo.Username != "system:serviceaccount:default:builder"):
		s.t.Errorf("%s token is not taken: %v, %v", what, answer, err)
	case !want && !apierrors.IsUnauthorized(err):
		s.t.Errorf("%s token is not refused: %v, %v", what, answer, err)
	}
}
