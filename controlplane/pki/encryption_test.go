package pki

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
			content, err := EncryptionConfiguration(test.spec, EncryptionKeys(key, true))
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
	if _, err := EncryptionConfiguration(controlplanev1.EncryptionAtRestSpec{Mode: "Rot13"}, EncryptionKeys(key, true)); err == nil {
		t.Error("an unknown mode was accepted")
	}
}

// A key has the same name in every configuration that has it: what it encrypted begins with that name.
func TestEveryKeyHasANameOfItsOwn(t *testing.T) {
	first, other := bytes.Repeat([]byte{7}, encryptionKeySize), bytes.Repeat([]byte{'\n'}, encryptionKeySize)
	names := func(keys []apiserverv1.Key) (all []string) {
		for _, key := range keys {
			all = append(all, key.Name)
		}
		return all
	}
	a, b := encryptionKeyName(first), encryptionKeyName(other)
	if a == b || !strings.HasPrefix(a, "key-") || len(a) != len("key-")+fileDigits {
		t.Errorf("the names are %s and %s", a, b)
	}
	for name, test := range map[string]struct {
		value    []byte
		madeWith bool
		want     []string
	}{
		"the key of a new tenant":                    {first, true, []string{"key1", a}},
		"a key that a rotation made":                 {other, false, []string{b}},
		"a tenant of a snapshot amid a rotation":     {joinEncryptionKeys(first, other), true, []string{"key1", a, b}},
		"... whose next rotation is amid a snapshot": {joinEncryptionKeys(joinEncryptionKeys(first, other), first), true, []string{"key1", a, b, a}},
		"no key: text in hexadecimal":                {bytes.Repeat([]byte("0f"), encryptionKeySize), true, nil},
		"no key: the same with the end of a line":    {append(bytes.Repeat([]byte("0f"), encryptionKeySize), '\n'), true, nil},
		"no key: two without what stands in between": {slices.Concat(first, other), true, nil},
		"no key: one and the separator":              {append(slices.Clone(first), keySeparator), true, nil},
	} {
		if got := names(EncryptionKeys(test.value, test.madeWith)); !slices.Equal(got, test.want) {
			t.Errorf("%s: the names are %v, want %v", name, got, test.want)
		}
		if refused := checkEncryptionKey([][]byte{test.value}) != nil; refused != (test.want == nil) {
			t.Errorf("%s: it is %t that it is refused", name, refused)
		}
	}
}

func TestValuesOfAnotherKeyAreKnownByTheirBeginning(t *testing.T) {
	for value, want := range map[string]bool{
		"k8s:enc:secretbox:v1:key1:...":                   true,
		"k8s:enc:secretbox:v1:key-abcdef0123:...":         true,
		"k8s:enc:aescbc:v1:key-0123456789:...":            true,
		"k8s:enc:":                                        true,
		"k8s:enc:secretbox:v1:key-0123456789:...":         false,
		"k8s\x00\n\x0c\n\x02v1\x12\x06Secret":             false,
		`{"apiVersion":"example.org/v1","kind":"Widget"}`: false,
		"": false,
	} {
		if got := IsOfAnotherKey([]byte(value), "0123456789"); got != want {
			t.Errorf("%q: it is %t", value, got)
		}
	}
}

func TestEncryptedResourcesAreThoseOfThePatterns(t *testing.T) {
	core, group := schema.GroupResource{Resource: "secrets"}, schema.GroupResource{Group: "example.org", Resource: "widgets"}
	for name, test := range map[string]struct {
		patterns    []string
		core, group bool
	}{
		"by default":         {nil, true, false},
		"by name":            {[]string{"configmaps", "widgets.example.org"}, false, true},
		"the core group":     {[]string{"*."}, true, false},
		"another group":      {[]string{"*.example.org"}, false, true},
		"all":                {[]string{"*.*"}, true, true},
		"the name elsewhere": {[]string{"widgets", "secrets.example.org"}, false, false},
	} {
		spec := controlplanev1.EncryptionAtRestSpec{Resources: test.patterns}
		if Encrypts(spec, core) != test.core || Encrypts(spec, group) != test.group {
			t.Errorf("%s: secrets %t, widgets %t", name, Encrypts(spec, core), Encrypts(spec, group))
		}
	}
}
