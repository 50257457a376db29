package certificates

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"testing"

	"sigs.k8s.io/cluster-api/util/certs"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

// proxyClient is a leaf of a CA that rotates, under the name that it has without a rotation.
var proxyClient = Leaf{
	Name: "front-proxy-client", Signer: pki.FrontProxyCA, CommonName: "front-proxy-client", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
}

// Each CA has a leaf under a name of its own, and keeps it from phase to phase.
func TestLeavesAreOfTheCAsOfThePhase(t *testing.T) {
	w := newWorld(t)
	born := w.Keys.FrontProxyCA
	issue := func() map[string][]byte {
		w.leaves(LeafSecret{Key: leafs, Leaves: BySigning(w.Keys, proxyClient)})
		return w.Get(w.Host, leafs.Name).Data
	}
	before := issue()
	if names := slices.Sorted(maps.Keys(before)); !slices.Equal(names, []string{"front-proxy-client.crt", "front-proxy-client.key"}) {
		t.Fatalf("without a rotation there are %v", names)
	}
	for _, phase := range []rotation.Phase{rotation.Trusting, rotation.Using, rotation.Prepared, rotation.Dropping, rotation.Over} {
		next := w.rotate(pki.FrontProxyCA, phase)
		signers := map[string]*x509.Certificate{}
		if phase == rotation.Trusting || phase == rotation.Using {
			signers["front-proxy-client.crt"] = born.Certificate
		}
		if phase != rotation.Trusting {
			signers["front-proxy-client-"+w.Keys.Rotation(string(pki.FrontProxyCA)).File()+".crt"] = next.Certificate
		}
		data := issue()
		if len(data) != 2*len(signers) {
			t.Errorf("%s: there are %v", phase, slices.Sorted(maps.Keys(data)))
		}
		for name, signer := range signers {
			leaf, err := certs.DecodeCertPEM(data[name])
			if err != nil {
				t.Fatalf("%s: %s: %v", phase, name, err)
			}
			if err := leaf.CheckSignatureFrom(signer); err != nil {
				t.Errorf("%s: %s is not by its CA: %v", phase, name, err)
			}
			if kept := before[name]; kept != nil && !bytes.Equal(kept, data[name]) {
				t.Errorf("%s: %s was issued anew", phase, name)
			}
		}
		before = data
	}
}
