package ports

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// FuzzClaims: the name of a claim that is accepted is that of the claim which this program makes of its block. Otherwise two
// claims could be of one block.
func FuzzClaims(f *testing.F) {
	for _, seed := range []string{"kok-ports-20000", "kok-ports-020000", "20000", "kok-ports-", "kok-ports-20001", "kok-ports-0", "kok-ports-65535", "kok-ports-65520", "kok-ports-70000", "kok-ports-kok-ports-20000", "kok-ports-+20000"} {
		f.Add(seed)
	}
	claims := &Claims{namespace: "kok-system", span: DefaultRange}
	f.Fuzz(func(t *testing.T, name string) {
		claim := claims.claim(client.ObjectKey{Namespace: "team", Name: "blue"}, 0)
		claim.Name = name
		port, err := first(claim)
		if err != nil {
			return
		}
		if made := claims.claim(holder(claim), port); made.Name != name {
			t.Errorf("%q is taken for the claim of %d, which is %q", name, port, made.Name)
		}
		if block := Block(port); block.First < 1 || block.Last > 65535 {
			t.Errorf("%q is the claim of %s", name, block)
		}
	})
}

// FuzzRanges: a range that is accepted is written as one that is accepted, and its blocks are in it.
func FuzzRanges(f *testing.F) {
	for _, seed := range []string{"20000-29999", "1024-1055", "1024-1024", "0-65535", "29999-20000", "61000-65535", "65520-65535", "a-b", "", "-", "020000-29999", "20000-29999-1", "30000-30100", "1000-2000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		span, err := ParseRange(text)
		if err != nil {
			return
		}
		if again, err := ParseRange(span.String()); err != nil || again != span {
			t.Errorf("%q is %s, and that is %s, %v", text, span, again, err)
		}
		last := Block(span.firstBlock() + (span.blocks()-1)*controlplanev1.PortBlockSize)
		if span.blocks() < 1 || !span.Contains(Block(span.firstBlock())) || !span.Contains(last) || span.Contains(Block(last.Last+1)) {
			t.Errorf("%s has %d blocks from %d on", span, span.blocks(), span.firstBlock())
		}
	})
}
