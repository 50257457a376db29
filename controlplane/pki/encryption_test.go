package pki

import (
	"encoding/base64"
	"slices"
	"testing"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestEncryptionConfiguration(t *testing.T) {
	key := slices.Repeat([]byte{7}, encryptionKeySize)
	// Each entry is its resources, then its providers in order.
	for name, test := range map[string]struct {
		spec controlplanev1.EncryptionAtRestSpec
		want [][]string
	}{
		"secrets by default": {
			controlplanev1.EncryptionAtRestSpec{},
			[][]string{{"secrets", "|", "secretbox", "identity"}, {"*.*", "|", "identity", "secretbox"}},
		},
		"what is listed is encrypted, what is not can still be read": {
			controlplanev1.EncryptionAtRestSpec{Mode: controlplanev1.EncryptionSecretBox, Resources: []string{"secrets", "widgets.example.org"}},
			[][]string{{"secrets", "widgets.example.org", "|", "secretbox", "identity"}, {"*.*", "|", "identity", "secretbox"}},
		},
		"everything": {
			controlplanev1.EncryptionAtRestSpec{Mode: controlplanev1.EncryptionSecretBox, Resources: []string{"*.*"}},
			[][]string{{"*.*", "|", "secretbox", "identity"}},
		},
		"nothing": {
			controlplanev1.EncryptionAtRestSpec{Mode: controlplanev1.EncryptionNone, Resources: []string{"secrets"}},
			[][]string{{"*.*", "|", "identity"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := EncryptionConfiguration(test.spec, key)
			if err != nil {
				t.Fatal(err)
			}
			parsed := apiserverv1.EncryptionConfiguration{}
			if err := yaml.UnmarshalStrict(content, &parsed); err != nil {
				t.Fatal(err)
			}
			if parsed.APIVersion != "apiserver.config.k8s.io/v1" || parsed.Kind != "EncryptionConfiguration" {
				t.Errorf("%s %s", parsed.APIVersion, parsed.Kind)
			}
			var got [][]string
			for _, entry := range parsed.Resources {
				line := append(slices.Clone(entry.Resources), "|")
				for _, provider := range entry.Providers {
					if provider.Identity != nil {
						line = append(line, "identity")
					}
					if box := provider.Secretbox; box != nil {
						line = append(line, "secretbox")
						if box.Keys[0].Secret != base64.StdEncoding.EncodeToString(key) {
							t.Error("another key")
						}
					}
				}
				got = append(got, line)
			}
			if !slices.EqualFunc(got, test.want, slices.Equal) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if _, err := EncryptionConfiguration(controlplanev1.EncryptionAtRestSpec{Mode: "Rot13"}, key); err == nil {
		t.Error("an unknown mode was accepted")
	}
}
