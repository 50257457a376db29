package webhooks

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestKeysOfTenantsCannotBeMounted(t *testing.T) {
	for name, ok := range map[string]bool{
		"webhook-credentials": true, "etcd": true, "my-certificates": true,
		"other-key-material": false, "other-ca": false, "other-sa": false, "other-kube-apiserver-certs": false,
		"other-kubeconfig": false, "other-encryption": false, "other-etcd-events": false,
	} {
		errs := validateForeignSecret(name, field.NewPath("secretName"))
		if (len(errs) == 0) != ok {
			t.Errorf("%s: %v", name, errs)
		}
		if !ok && !strings.Contains(errs[0].Error(), "use a Secret of another name") {
			t.Errorf("%s: no way out: %v", name, errs[0])
		}
	}
}
