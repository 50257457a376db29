package tenant

import (
	"context"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// PublishedCAs is the ConfigMap in which API servers tell extension API servers which CAs to trust.
var PublishedCAs = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}

// PublishedFrontProxyCAs is its data key with the CAs of front proxies.
const PublishedFrontProxyCAs = "requestheader-client-ca-file"

// EnsurePublished takes the dropped CAs away from a data key of PublishedCAs once the wanted ones are there, and says what it waits for; empty
// for nothing. CAs are certificates as PEM.
//
// Every API server adds its CAs to those that it finds there, and takes away only what has expired
// (pkg/controlplane/controller/clusterauthenticationtrust of Kubernetes): without this a former CA would be trusted until it expires. Call it
// only when no API server has the dropped CAs any more: an API server that has them adds them again.
func EnsurePublished(ctx context.Context, tenant client.Client, dataKey string, wanted, dropped []byte) (waits string, err error) {
	published := &corev1.ConfigMap{}
	switch err := tenant.Get(ctx, PublishedCAs, published); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return "", fmt.Errorf("get the tenant's ConfigMap %s: %w", PublishedCAs, err)
	}
	present, unwanted := certificatesOf([]byte(published.Data[dataKey])), certificatesOf(dropped)
	for _, ca := range certificatesOf(wanted) {
		if !slices.Contains(present, ca) {
			return "API servers have not added the new CA to " + dataKey, nil
		}
	}
	left := slices.DeleteFunc(slices.Clone(present), func(ca string) bool { return slices.Contains(unwanted, ca) })
	if len(left) == len(present) {
		return "", nil
	}
	published.Data[dataKey] = bundleOf(left)
	// The resource version refuses the write where an API server has written meanwhile.
	if err := tenant.Update(ctx, published, client.FieldOwner(names.FieldManager)); err != nil {
		return "", fmt.Errorf("take the former CA away from the tenant's ConfigMap %s: %w", PublishedCAs, err)
	}
	return "", nil
}

// certificatesOf are the certificates of a bundle, as DER. All else in it is left out.
func certificatesOf(bundle []byte) []string {
	var all []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			all = append(all, string(block.Bytes))
		}
	}
	return all
}

func bundleOf(certificates []string) string {
	var bundle strings.Builder
	for _, der := range certificates {
		bundle.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)}))
	}
	return bundle.String()
}
