package wanted_test

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/cert"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

// first is the first certificate of a bundle: what makes one for tests adds that of its CA.
func first(bundle []byte) []byte {
	block, _ := pem.Decode(bundle)
	return pem.EncodeToMemory(block)
}

func TestRead(t *testing.T) {
	ca, _, err := cert.GenerateSelfSignedCertKey("first.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := cert.GenerateSelfSignedCertKey("second.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		wanted wanted.Wanted
		order  *wanted.Order
		hash   string
		want   string
	}{
		"CAs alone":                  {wanted: wanted.Wanted{Trusted: ca}},
		"without an order":           {order: &wanted.Order{}, wanted: wanted.Wanted{Trusted: ca}, want: "order: "},
		"of another phase":           {wanted: wanted.Wanted{Trusted: ca}, hash: "0", want: "another phase"},
		"no certificate":             {wanted: wanted.Wanted{Trusted: []byte("?")}, want: "trusted.crt"},
		"a signer that is not there": {wanted: wanted.Wanted{Trusted: other, Signer: first(ca)}, want: "would not trust"},
		"a signer of two":            {wanted: wanted.Wanted{Trusted: ca, Signer: ca}, want: "has 2 certificates"},
		"the signer is trusted":      {wanted: wanted.Wanted{Trusted: ca, Signer: first(ca)}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			test.wanted.Order = wanted.Order{Rotation: "2030-01-02T03:04:05Z", Step: 1}
			if test.order != nil {
				test.wanted.Order = *test.order
			}
			for name, content := range test.wanted.Files() {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			hash := test.wanted.Hash()
			if test.hash != "" {
				hash = test.hash
			}
			got, err := wanted.Read(folder, hash)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Order != test.wanted.Order {
				t.Errorf("the order is %s", got.Order)
			}
			if diff := cmp.Diff(string(test.wanted.Trusted)+string(test.wanted.Signer), string(got.Trusted)+string(got.Signer)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
