// Package tokens keeps the bootstrap token of one machine in its tenant: a Secret that Kubernetes
// authenticates by (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens). A token
// is made once, by New. All other functions take a token that exists.
package tokens

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Group is the group of everybody who uses a token, as in kubeadm. It may join nodes.
	Group = "system:bootstrappers:kubeadm:default-node-token"
	// DefaultTTL is how long a token lives unless it is renewed.
	DefaultTTL = 15 * time.Minute
)

// ErrTaken means that the tenant holds another token with the same id.
var ErrTaken = errors.New("the tenant holds another bootstrap token with the same id")

// New makes a token, in the form "abcdef.0123456789abcdef".
func New() (string, error) {
	token, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return "", fmt.Errorf("generate a bootstrap token: %w", err)
	}
	return token, nil
}

// ID is the public part of a token.
func ID(token string) string {
	id, _, _ := strings.Cut(token, ".")
	return id
}

// Ensure makes the tenant accept a token until expiration, for the machine that description names. It also makes an expired
// token valid again. It returns ErrTaken when another token has the id.
func Ensure(ctx context.Context, tenant client.Client, token, description string, expiration time.Time) error {
	id, secret, _ := strings.Cut(token, ".")
	wanted := &corev1.Secret{
		ObjectMeta: objectMeta(id),
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey:               []byte(id),
			bootstrapapi.BootstrapTokenSecretKey:           []byte(secret),
			bootstrapapi.BootstrapTokenExpirationKey:       []byte(expiration.UTC().Format(time.RFC3339)),
			bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
			bootstrapapi.BootstrapTokenExtraGroupsKey:      []byte(Group),
			bootstrapapi.BootstrapTokenDescriptionKey:      []byte(description),
		},
	}
	err := tenant.Create(ctx, wanted)
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create bootstrap token %s in the tenant: %w", id, err)
	}
	live := &corev1.Secret{}
	if err := tenant.Get(ctx, client.ObjectKeyFromObject(wanted), live); err != nil {
		return fmt.Errorf("get bootstrap token %s of the tenant: %w", id, err)
	}
	if subtle.ConstantTimeCompare(live.Data[bootstrapapi.BootstrapTokenSecretKey], []byte(secret)) != 1 {
		return fmt.Errorf("bootstrap token %s: %w", id, ErrTaken)
	}
	live.Data = wanted.Data
	if err := tenant.Update(ctx, live); err != nil {
		return fmt.Errorf("renew bootstrap token %s of the tenant: %w", id, err)
	}
	return nil
}

// Revoke makes the tenant refuse a token from now on.
func Revoke(ctx context.Context, tenant client.Client, id string) error {
	err := tenant.Delete(ctx, &corev1.Secret{ObjectMeta: objectMeta(id)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("revoke bootstrap token %s of the tenant: %w", id, err)
	}
	return nil
}

func objectMeta(id string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(id)}
}
