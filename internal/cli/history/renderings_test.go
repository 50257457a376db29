package history

import (
	"errors"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
)

// The host cluster has the renderings. When kok cannot read them, it must not end as if there were none.
func TestRenderingsThatCannotBeReadAreAnError(t *testing.T) {
	of := &controlplanev1.KOKControlPlane{}
	of.Spec.Hosting.KubeconfigRef.Name = "host"
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	err := (&options{renderings: true}).printStored(t.Context(), access.New("kok", streams), nil, of)
	if !errors.Is(err, errElsewhere) || out.Len() > 0 {
		t.Errorf("it ends with %v, and prints %q", err, out)
	}
}
