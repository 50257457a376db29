package hostclusters

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// longestWait bounds one wait for the time of a renewal: timers stand still while a machine sleeps.
const longestWait = time.Hour

// requester requests from a host cluster another token of an account, which lasts some seconds, within a time of its own.
type requester func(ctx context.Context, config *rest.Config, account client.ObjectKey, seconds int64) (token string, err error)

// request implements requester.
func (o Options) request(ctx context.Context, config *rest.Config, account client.ObjectKey, seconds int64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asking := o.transport(ctx, config)
	httpClient, err := httpClientFor(asking)
	if err != nil {
		return "", err
	}
	accounts, err := corev1client.NewForConfigAndClient(asking, httpClient)
	if err != nil {
		return "", err
	}
	answer, err := accounts.ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// renew looks after the token of a connection's kubeconfig until the connection ends. A kubeconfig with a token that
// does not end, or with other credentials, stays as it is. The connection itself is not touched: the Secret gets another
// content, and so a connection of its own.
func (c *Clusters) renew(ctx context.Context, self *connection) {
	token, err := readToken(self.config.BearerToken)
	if err != nil {
		return
	}
	pause := time.Duration(0)
	for wait(ctx, pause) {
		if left := time.Until(token.due()); left > 0 {
			pause = min(left, longestWait)
			continue
		}
		c.warn(ctx, self, token.warning(self.name, time.Now(), c.tryRenew(ctx, self, token)))
		pause = token.retry()
	}
}

// tryRenew writes a new token into the Secret. It writes nothing when the Secret has another content by now: another writer
// was faster.
func (c *Clusters) tryRenew(ctx context.Context, self *connection, token accountToken) (err error) {
	defer panics.Recover(ctx, "renewing a token", &err)
	secret := &corev1.Secret{}
	if err := c.live.Get(ctx, self.name, secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	if sha256.Sum256(secret.Data[controlplanev1.KubeconfigKey]) != self.content {
		return nil
	}
	fresh, err := c.request(ctx, self.config, token.account, token.seconds())
	if err != nil {
		return fmt.Errorf("request a token of ServiceAccount %s: %w", token.account, err)
	}
	if err := token.follows(fresh, time.Now()); err != nil {
		return err
	}
	if secret.Data[controlplanev1.KubeconfigKey], err = untrusted.WithToken(secret.Data[controlplanev1.KubeconfigKey], fresh); err != nil {
		return err
	}
	// It fails when the Secret is another by now than the one that was read.
	if err := c.writer.Update(writes.Because(ctx, "host-cluster"), secret); err != nil {
		return client.IgnoreNotFound(ignoreConflict(err))
	}
	ctrl.LoggerFrom(ctx).Info("Renewed the token in the kubeconfig of a host cluster", "ServiceAccount", token.account.String())
	c.lock.Lock()
	defer c.lock.Unlock()
	c.wake(self)
	return nil
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// follows refuses a new token that would not replace this one for a while.
func (t accountToken) follows(fresh string, now time.Time) error {
	next, err := readToken(fresh)
	switch {
	case err != nil:
		return fmt.Errorf("the host cluster gave a token of ServiceAccount %s that cannot be used: %w", t.account, err)
	case next.account != t.account:
		return errors.New("the host cluster gave a token of another ServiceAccount than " + t.account.String())
	case !next.due().After(now):
		return fmt.Errorf("the host cluster gave a token of ServiceAccount %s that would have to be renewed at once: compare its clock with that of the manager", t.account)
	}
	return nil
}

// warning is what a person is told when the token was not renewed; empty for nothing.
func (t accountToken) warning(secret client.ObjectKey, now time.Time, problem error) string {
	if problem == nil || now.Before(t.told()) {
		return ""
	}
	another := fmt.Sprintf("write another one into it, made in the host cluster by: kubectl -n %s create token %s --duration=%ds", t.account.Namespace, t.account.Name, t.seconds())
	end := t.expires.UTC().Format(time.RFC3339)
	if !now.Before(t.expires) {
		return fmt.Sprintf("the token in the kubeconfig of Secret %s ended at %s: %s", secret, end, another)
	}
	return fmt.Sprintf("the token in the kubeconfig of Secret %s ends at %s and cannot be renewed (%s): put that right, or %s", secret, end, errortext.Steady(problem), another)
}

// warn keeps what a person is told of the token, unless the connection ended, and reconciles its users when that is new.
func (c *Clusters) warn(ctx context.Context, self *connection, warning string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if ctx.Err() != nil || self.warning == warning {
		return
	}
	self.warning = warning
	c.wake(self)
}
