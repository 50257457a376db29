package controllers

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// Certificates are the Secrets with certificates that a control plane has, one for each component,
// without owner.
func Certificates(in *components.Input, keys *pki.KeyMaterial, endpointHost string, certSANs []string) ([]certificates.LeafSecret, error) {
	present := registry.Components.Of(&in.Spec)
	secrets := make([]certificates.LeafSecret, 0, len(present))
	for _, component := range present {
		wanted, err := component.Certificates(in, components.Issuance{Keys: keys, Endpoint: endpointHost, SANs: certSANs})
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, certificates.LeafSecret{
			Key:    client.ObjectKey{Namespace: in.Cluster.Namespace, Name: names.Certs(in.Cluster.Name, component.Name)},
			Labels: names.ComponentLabels(in.Cluster, component.Name),
			Leaves: wanted.Leaves,
			Files:  wanted.Files,
		})
	}
	return secrets, nil
}
