//go:build root

package packages

import (
	"testing"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

func TestDpkgIsAskedWhichPackagesAreInstalled(t *testing.T) {
	wanted := []bootstrapv1.Package{{Name: "kok-software-none"}, {Name: "dpkg"}, {Name: "bash", Version: "0-none"}}
	missing, err := APT{}.Missing(t.Context(), wanted)
	if err != nil || len(missing) != 2 || missing[0].Name != "kok-software-none" || missing[1].Name != "bash" {
		t.Errorf("%v: %v", missing, err)
	}
}
