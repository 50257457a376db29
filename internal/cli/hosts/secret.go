package hosts

import (
	"context"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// privateKey is a key file and the Secret that it goes to.
type privateKey struct {
	file, secret string
	content      []byte
	credentials  *ssh.Credentials
}

// maxKeyFile bounds a private key's file, in bytes. No private key is as large.
const maxKeyFile = 64 << 10

// readKeys reads the host's key, and after it the bastion's if that is another one.
func (f *addFlags) readKeys() ([]privateKey, error) {
	host, err := readKey(f.target.keyFile, f.target.keySecret)
	if err != nil {
		return nil, err
	}
	keys := []privateKey{host}
	if f.bastion.address != "" && f.bastion.keySecret != f.target.keySecret {
		bastion, err := readKey(f.bastion.keyFile, f.bastion.keySecret)
		if err != nil {
			return nil, err
		}
		keys = append(keys, bastion)
	}
	return keys, nil
}

func readKey(file, secret string) (privateKey, error) {
	key := privateKey{file: file, secret: secret}
	opened, err := os.Open(file)
	if err != nil {
		return key, fmt.Errorf("read the private key: %w", err)
	}
	defer opened.Close() //nolint:errcheck // Only read.
	if key.content, err = io.ReadAll(io.LimitReader(opened, maxKeyFile+1)); err != nil {
		return key, fmt.Errorf("read the private key: %w", err)
	}
	if len(key.content) > maxKeyFile {
		return key, fmt.Errorf("%s is no private key: it has more than %d bytes", file, maxKeyFile)
	}
	if key.credentials, err = ssh.ParseCredentials(key.content, nil); err != nil {
		return key, fmt.Errorf("%s: %w; ssh-keygen -t ed25519 -N '' -f FILE makes one that can be used", file, err)
	}
	return key, nil
}

// compareSecret reports whether the Secret of a key is there. One with another key is an error.
func (a *adder) compareSecret(ctx context.Context, key privateKey) (bool, error) {
	name := client.ObjectKey{Namespace: a.namespace, Name: key.secret}
	secret := &corev1.Secret{}
	err := a.client.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read Secret %s: %w", name, err)
	}
	has, err := ssh.ParseCredentials(secret.Data[infrav1.SSHPrivateKey], nil)
	if err != nil {
		return false, fmt.Errorf("Secret %s is there and holds no key that can be used in %s (%w); choose another one by --key-secret or --bastion-key-secret, or delete it", name, infrav1.SSHPrivateKey, err) //nolint:staticcheck // A kind.
	}
	if has.PublicLine() != key.credentials.PublicLine() {
		return false, fmt.Errorf("Secret %s is there and holds another key (%s) than %s (%s); choose another Secret by --key-secret or --bastion-key-secret, or the file with its key", //nolint:staticcheck // A kind.
			name, fingerprintOf(has), key.file, fingerprintOf(key.credentials))
	}
	return true, nil
}

func fingerprintOf(credentials *ssh.Credentials) string {
	fingerprint, err := ssh.Fingerprint(credentials.PublicLine())
	if err != nil {
		return "of an unknown type"
	}
	return fingerprint
}

// ensureSecrets makes the Secrets that are not there.
func (a *adder) ensureSecrets(ctx context.Context, keys []privateKey) error {
	for _, key := range keys {
		there, err := a.compareSecret(ctx, key)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: key.secret}, Type: corev1.SecretTypeSSHAuth,
			Data: map[string][]byte{infrav1.SSHPrivateKey: key.content},
		}
		if err := a.client.Create(ctx, secret); err != nil {
			return fmt.Errorf("create Secret %s: %w", client.ObjectKeyFromObject(secret), err)
		}
		a.cluster.Say("Secret %s is created with the key in %s", client.ObjectKeyFromObject(secret), key.file)
	}
	return nil
}
