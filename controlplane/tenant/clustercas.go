package tenant

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PublishedClusterCAs is the data key of PublishedCAs with the CAs by which API servers verify their clients.
const PublishedClusterCAs = "client-ca-file"

// RootCAsName is the name of the ConfigMap from which pods have the CAs by which they verify API servers.
const RootCAsName = "kube-root-ca.crt"

var (
	// rootCAs is one of these ConfigMaps: the controller manager keeps one in every namespace.
	rootCAs = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: RootCAsName}
	// joining is the ConfigMap from which joining machines have them.
	joining = client.ObjectKey{Namespace: metav1.NamespacePublic, Name: bootstrapapi.ConfigMapClusterInfo}
)

// LacksRootCAs says what is missing until pods that start now have the wanted cluster CAs and none of the dropped ones; empty for nothing.
// CAs are certificates as PEM.
func LacksRootCAs(ctx context.Context, tenant client.Reader, wanted, dropped []byte) (string, error) {
	return lacks(ctx, tenant, rootCAs, rootCAsOf, wanted, dropped)
}

// LacksJoiningCAs says what is missing until machines that join by kubeadm trust the wanted cluster CAs; empty for nothing.
func LacksJoiningCAs(ctx context.Context, tenant client.Reader, wanted []byte) (string, error) {
	return lacks(ctx, tenant, joining, joiningCAsOf, wanted, nil)
}

func lacks(ctx context.Context, tenant client.Reader, at client.ObjectKey, cas func(*corev1.ConfigMap) []byte, wanted, dropped []byte) (string, error) {
	published := &corev1.ConfigMap{}
	if err := tenant.Get(ctx, at, published); err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("get the tenant's ConfigMap %s: %w", at, err)
	}
	present := certificatesOf(cas(published))
	for _, ca := range certificatesOf(wanted) {
		if !slices.Contains(present, ca) {
			return fmt.Sprintf("ConfigMap %s does not have the new CA", at), nil
		}
	}
	for _, ca := range certificatesOf(dropped) {
		if slices.Contains(present, ca) {
			return fmt.Sprintf("ConfigMap %s still has the former CA", at), nil
		}
	}
	return "", nil
}

func rootCAsOf(published *corev1.ConfigMap) []byte {
	return []byte(published.Data[corev1.ServiceAccountRootCAKey])
}

// joiningCAsOf reads the CAs in the kubeconfig of joining machines. One that cannot be read has none.
func joiningCAsOf(published *corev1.ConfigMap) []byte {
	config, err := clientcmd.Load([]byte(published.Data[bootstrapapi.KubeConfigKey]))
	if err != nil {
		return nil
	}
	var cas []byte
	for _, cluster := range config.Clusters {
		cas = append(cas, cluster.CertificateAuthorityData...)
	}
	return cas
}
