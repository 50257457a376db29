//go:build root

package hostclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh/sshtest"
)

// Whose failure it is when a clean-up does not end well, by a real SSH server that breaks.
func TestTheHostClientTellsAHostThatFailsFromWhatIsNotItsFault(t *testing.T) {
	for name, test := range map[string]struct {
		// forced is what the server runs in place of every command.
		forced  string
		secrets error
		// lost is true for a connection that ended.
		lost, failed bool
	}{
		"a Secret that cannot be read":    {forced: "exit 1", secrets: errors.New("the server is busy")},
		"a connection that is cut":        {forced: "kill -9 $PPID", lost: true},
		"a host that hangs":               {forced: "sleep 600", failed: true},
		"a host whose commands are ended": {forced: "kill -9 $$", failed: true},
		"a host whose commands fail":      {forced: "exit 1", failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := sshtest.Start(t, "ForceCommand "+test.forced)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "hosts"}, Data: map[string][]byte{"ssh-privatekey": server.UserKey.Private}}
			secrets := interceptor.NewClient(fake.NewClientBuilder().WithObjects(secret).Build(), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					if test.secrets != nil {
						return test.secrets
					}
					return c.Get(ctx, key, object, options...)
				},
			})
			host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "host-1"}}
			host.Spec.SSHServer = infrav1.SSHServer{
				Address: server.Address, Port: int32(server.Port), User: server.User,
				KeySecretRef: infrav1.SecretReference{Name: "hosts"}, HostKeys: []string{server.HostKey},
			}
			limit := time.Minute // A busy machine takes its time to log in.
			if strings.HasPrefix(test.forced, "sleep") {
				limit = 20 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := (&SSH{Secrets: secrets}).CleanUp(ctx, host, "1")
			var lost *ssh.Error
			if err == nil || HostFailed(err) != test.failed || (errors.As(err, &lost) && lost.Reason == ssh.Lost) != test.lost {
				t.Errorf("%T %v", err, err)
			}
		})
	}
}
