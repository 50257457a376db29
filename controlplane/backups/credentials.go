package backups

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
)

// Credentials reads the files with the credentials of a store. field is the path of the store, for messages. missing tells people what they
// have to do first. No cache holds the Secrets with the credentials, because they have no label of a Cluster. Credentials gives each one
// the label by which clusterctl move takes it along.
func (k *Keeper) Credentials(ctx context.Context, namespace string, store controlplanev1.EtcdSnapshotStore, field string) (files map[string][]byte, missing string, err error) {
	files = map[string][]byte{}
	if store.S3 == nil {
		return files, "", nil
	}
	take := func(ref controlplanev1.SecretReference, field string, keys map[string]string, needed ...string) (string, error) {
		secret := &corev1.Secret{}
		err := k.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, secret)
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("%s names the Secret %s, which is not in namespace %s: create it there", field, ref.Name, namespace), nil
		}
		if err != nil {
			return "", fmt.Errorf("read the Secret %s of %s: %w", ref.Name, field, err)
		}
		for _, key := range needed {
			if len(secret.Data[key]) == 0 {
				return fmt.Sprintf("%s names the Secret %s, which has no key %s: add it", field, ref.Name, key), nil
			}
		}
		for key, file := range keys {
			if len(secret.Data[key]) > 0 {
				files[file] = secret.Data[key]
			}
		}
		return "", giveaway.TakeAlong(ctx, k.Client, secret)
	}
	missing, err = take(store.S3.CredentialsRef, field+".s3.credentialsRef", map[string]string{
		backup.AccessKeyIDFile: backup.AccessKeyIDFile, backup.SecretAccessKeyFile: backup.SecretAccessKeyFile, backup.SessionTokenFile: backup.SessionTokenFile,
	}, backup.AccessKeyIDFile, backup.SecretAccessKeyFile)
	if err == nil && missing == "" && store.S3.CARef.Name != "" {
		missing, err = take(store.S3.CARef, field+".s3.caRef", map[string]string{"ca.crt": backup.S3CAFile}, "ca.crt")
	}
	return files, missing, err
}
