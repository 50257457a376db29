package pki

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

const (
	// encryptionKeySize is the size of a key of secretbox (XSalsa20 and Poly1305), in bytes.
	encryptionKeySize = 32
	// firstKeyName is what configurations call the key that the tenant was made with.
	firstKeyName  = "key1"
	everyResource = "*.*"
	// encryptedPrefix begins all that API servers encrypt, secretBoxPrefix what they encrypt by secretbox; the name of the key follows.
	encryptedPrefix = "k8s:enc:"
	secretBoxPrefix = encryptedPrefix + "secretbox:v1:"
)

// EncryptionConfiguration is the file for kube-apiserver's --encryption-provider-config. The first of the keys writes, and all read.
//
// Resources that are no longer in spec.resources can still be read: the last entry is for all resources, tries the keys, and
// writes plain text. Without it, the removal of a resource from the list would make its data unreadable.
func EncryptionConfiguration(spec controlplanev1.EncryptionAtRestSpec, keys []apiserverv1.Key) ([]byte, error) {
	identity := apiserverv1.ProviderConfiguration{Identity: &apiserverv1.IdentityConfiguration{}}
	box := apiserverv1.ProviderConfiguration{Secretbox: &apiserverv1.SecretboxConfiguration{Keys: keys}}
	configuration := apiserverv1.EncryptionConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "EncryptionConfiguration"},
	}
	switch spec.Mode {
	case controlplanev1.EncryptionNone:
		configuration.Resources = []apiserverv1.ResourceConfiguration{
			{Resources: []string{everyResource}, Providers: []apiserverv1.ProviderConfiguration{identity}},
		}
	case controlplanev1.EncryptionSecretBox, "":
		resources := encryptedResources(spec)
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

func encryptedResources(spec controlplanev1.EncryptionAtRestSpec) []string {
	if len(spec.Resources) == 0 {
		return []string{"secrets"}
	}
	return spec.Resources
}

// Encrypts reports whether API servers encrypt a resource, by the patterns that kube-apiserver knows: "secrets", "widgets.example.org",
// "*." for the core group, "*.example.org" and "*.*".
func Encrypts(spec controlplanev1.EncryptionAtRestSpec, resource schema.GroupResource) bool {
	return slices.ContainsFunc(encryptedResources(spec), func(pattern string) bool {
		name, group, _ := strings.Cut(pattern, ".")
		return pattern == everyResource || group == resource.Group && (name == "*" || name == resource.Resource)
	})
}

// EncryptionFile is the data key of the encryption configuration with some keys, the first of which writes, in the host cluster's copy. keys
// are what the names of their files end in. Without keys it is the configuration of the key that the tenant was made with. Configurations
// of the same name have the same keys, and differ in their resources alone.
func EncryptionFile(keys ...string) string {
	if len(keys) == 0 {
		return EncryptionFileName
	}
	return joinedFile(EncryptionFileName, keys...)
}

// isEncryptionFile reports whether a data key is that of a configuration with a key that a rotation made.
func isEncryptionFile(dataKey string) bool {
	base, ending, _ := strings.Cut(EncryptionFileName, ".")
	return strings.HasPrefix(dataKey, base+"-") && strings.HasSuffix(dataKey, "."+ending)
}

// encryptionKeyName is what configurations call a key, and what all that the key encrypted has before it in etcd.
func encryptionKeyName(key []byte) string { return "key-" + digits([][]byte{key}) }

// EncryptionKeys are the keys of a value of key material, as configurations have them. Each has a name of its own. The key that a tenant was
// made with also has the name that all such keys have. So a tenant that is made from another one's snapshot reads what that one's API servers
// encrypted by this key under either name.
func EncryptionKeys(value []byte, madeWith bool) []apiserverv1.Key {
	var keys []apiserverv1.Key
	add := func(name string, key []byte) {
		keys = append(keys, apiserverv1.Key{Name: name, Secret: base64.StdEncoding.EncodeToString(key)})
	}
	for i, key := range splitEncryptionKeys(value) {
		if i == 0 && madeWith {
			add(firstKeyName, key)
		}
		add(encryptionKeyName(key), key)
	}
	return keys
}

// keySeparator stands between keys. No key of text, such as one in hexadecimal, is taken for several keys.
const keySeparator = '\n'

// joinEncryptionKeys is several keys as one value, of which the first writes.
func joinEncryptionKeys(first, other []byte) []byte {
	return slices.Concat(first, []byte{keySeparator}, other)
}

// splitEncryptionKeys are the keys of a value; nil for a value that has anything else.
func splitEncryptionKeys(value []byte) [][]byte {
	var keys [][]byte
	for {
		if len(value) < encryptionKeySize {
			return nil
		}
		keys = append(keys, value[:encryptionKeySize])
		if value = value[encryptionKeySize:]; len(value) == 0 {
			return keys
		}
		if value[0] != keySeparator {
			return nil
		}
		value = value[1:]
	}
}

// bothEncryptionKeys has the former key write, whatever the phase is: what derives from the key, such as the keys of snapshots, stays
// as it is until the former key is dropped.
func bothEncryptionKeys(former, next [][]byte, _ bool) [][]byte {
	return [][]byte{joinEncryptionKeys(former[publicPart], next[publicPart])}
}

// IsOfAnotherKey reports whether a value in etcd is encrypted, and by another key than the one whose name ends in file.
func IsOfAnotherKey(value []byte, file string) bool {
	return bytes.HasPrefix(value, []byte(encryptedPrefix)) && !bytes.HasPrefix(value, []byte(secretBoxPrefix+"key-"+file+":"))
}

// encryptionFiles are the encryption configurations of the present phase, and of the phases before and after it.
func (c *copies) encryptionFiles(spec controlplanev1.EncryptionAtRestSpec, value []byte) (map[string][]byte, error) {
	r := c.rotations[Encryption]
	configurations := map[string][]apiserverv1.Key{EncryptionFileName: EncryptionKeys(value, true)}
	if r != nil {
		next := EncryptionKeys(r.parts[publicPart], false)
		configurations[EncryptionFile(r.File())] = next
		if r.Phase != rotation.Over {
			former := EncryptionKeys(value, r.FormerFile == "")
			configurations[EncryptionFile(r.FormerFile, r.File())] = slices.Concat(former, next)
			configurations[EncryptionFile(r.File(), r.FormerFile)] = slices.Concat(next, former)
			if r.FormerFile != "" {
				configurations[EncryptionFile(r.FormerFile)] = former
			}
		}
	}
	files := map[string][]byte{}
	for name, keys := range configurations {
		file, err := EncryptionConfiguration(spec, keys)
		if err != nil {
			return nil, err
		}
		files[name] = file
	}
	return files, nil
}
