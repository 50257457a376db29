package certificates

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// LeafSecret is a Secret that a component's pods mount.
type LeafSecret struct {
	Key client.ObjectKey
	// Labels and Owner are set on it; Owner may be nil.
	Labels map[string]string
	Owner  *metav1.OwnerReference
	// Leaves are issued by the tenant's certificate authorities.
	Leaves []Leaf
	// Files are further data, such as a CA bundle or a kubeconfig.
	Files map[string][]byte
}

// LeafResult says what EnsureLeaves found.
type LeafResult struct {
	// Changed is true when the Secret was written.
	Changed bool
	// RenewAt is when the next leaf is due; zero if none will be.
	RenewAt time.Time
	// EndsAt is when the first leaf ends; zero for a Secret without leaves.
	EndsAt time.Time
}

// EnsureLeaves writes the wanted leaves and files into the Secret of the host cluster, and removes everything else.
//
// A leaf is issued anew when it is missing or unreadable, when another CA than the present one signed it, when its key,
// subject, alternative names or usages differ from the wanted ones, or when more than half of its life is over. All other
// leaves keep their bytes, so that nothing reloads without a reason.
func (i Issuer) EnsureLeaves(ctx context.Context, host secrets.Access, secret LeafSecret) (LeafResult, error) {
	result := LeafResult{}
	changed, err := host.Settle(ctx, secret.Key, func(present *corev1.Secret) error {
		now := i.Clock.Now()
		wanted := make(map[string][]byte, 2*len(secret.Leaves)+len(secret.Files))
		result.RenewAt, result.EndsAt = time.Time{}, time.Time{}
		for _, leaf := range secret.Leaves {
			issuer, err := i.Keys.CAByFile(leaf.Signer, leaf.SignerFile)
			if err != nil {
				return fmt.Errorf("leaf %q: %w", leaf.Name, err)
			}
			renewAt, err := leaf.ensure(present.Data, wanted, issuer, now)
			if err != nil {
				return err
			}
			result.RenewAt = earlier(result.RenewAt, renewAt)
			certificate, err := certs.DecodeCertPEM(wanted[leaf.CertKey()])
			if err != nil {
				return fmt.Errorf("leaf %q: %w", leaf.Name, err)
			}
			result.EndsAt = earlier(result.EndsAt, certificate.NotAfter)
		}
		for name, content := range secret.Files {
			if _, clash := wanted[name]; clash {
				return fmt.Errorf("file %q has the name of a leaf", name)
			}
			wanted[name] = content
		}
		present.Data = wanted
		if present.ResourceVersion == "" {
			present.Type = corev1.SecretTypeOpaque
		}
		secrets.Own(present, secret.Labels, secret.Owner)
		return nil
	})
	if err != nil {
		return LeafResult{}, fmt.Errorf("certificates in Secret %s: %w", secret.Key, err)
	}
	result.Changed = changed
	return result, nil
}
