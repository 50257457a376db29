package pki

import (
	"encoding/base64"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

const (
	// encryptionKeySize is the size of a key of secretbox (XSalsa20 and Poly1305), in bytes.
	encryptionKeySize = 32
	encryptionKeyName = "key1"
	everyResource     = "*.*"
)

// EncryptionConfiguration is the file for kube-apiserver's --encryption-provider-config.
//
// Resources that are no longer in spec.resources can still be read: the last entry is for all resources, tries the key, and
// writes plain text. Without it, the removal of a resource from the list would make its data unreadable.
func EncryptionConfiguration(spec controlplanev1.EncryptionAtRestSpec, key []byte) ([]byte, error) {
	identity := apiserverv1.ProviderConfiguration{Identity: &apiserverv1.IdentityConfiguration{}}
	box := apiserverv1.ProviderConfiguration{Secretbox: &apiserverv1.SecretboxConfiguration{
		Keys: []apiserverv1.Key{{Name: encryptionKeyName, Secret: base64.StdEncoding.EncodeToString(key)}},
	}}
	configuration := apiserverv1.EncryptionConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "EncryptionConfiguration"},
	}
	switch spec.Mode {
	case controlplanev1.EncryptionNone:
		configuration.Resources = []apiserverv1.ResourceConfiguration{
			{Resources: []string{everyResource}, Providers: []apiserverv1.ProviderConfiguration{identity}},
		}
	case controlplanev1.EncryptionSecretBox, "":
		resources := spec.Resources
		if len(resources) == 0 {
			resources = []string{"secrets"}
		}
		// Identity comes second, so that data from before the resource was listed can be read.
		configuration.Resources = []apiserverv1.ResourceConfiguration{
			{Resources: resources, Providers: []apiserverv1.ProviderConfiguration{box, identity}},
		}
		if !slices.Contains(resources, everyResource) {
			configuration.Resources = append(configuration.Resources, apiserverv1.ResourceConfiguration{
				Resources: []string{everyResource}, Providers: []apiserverv1.ProviderConfiguration{identity, box},
			})
		}
	default:
		return nil, fmt.Errorf("encryptionAtRest.mode %q is not supported: use %s or %s",
			spec.Mode, controlplanev1.EncryptionSecretBox, controlplanev1.EncryptionNone)
	}
	out, err := yaml.Marshal(configuration)
	if err != nil {
		return nil, fmt.Errorf("marshal EncryptionConfiguration: %w", err)
	}
	return out, nil
}
