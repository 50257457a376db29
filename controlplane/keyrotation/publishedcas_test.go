package keyrotation

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// The former CA is dropped where no API server has it alone.
func TestWhichCAsAreToBePublishedInEachPhase(t *testing.T) {
	for phase, drops := range map[rotation.Phase]bool{
		rotation.Trusting: false, rotation.Using: false, rotation.Prepared: false, rotation.Dropping: true,
	} {
		wanted, dropped := publishedIn(phase, []byte("former"), []byte("new"))
		if string(wanted) != "new" || (string(dropped) == "former") != drops || !drops && dropped != nil {
			t.Errorf("%s: %q are wanted, %q are dropped", phase, wanted, dropped)
		}
	}
}
