package clusterca

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestJoiningMachinesTrustBothCAsWhileOneRotates(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"never rotated":    {map[string][]byte{"tls.crt": []byte("one")}, "one"},
		"while it rotates": {map[string][]byte{"tls.crt": []byte("one"), "trusted.crt": []byte("both")}, "both"},
		"nothing yet":      {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Trusted(&corev1.Secret{Data: test.data}); string(got) != test.want {
				t.Errorf("they trust %q", got)
			}
		})
	}
}
