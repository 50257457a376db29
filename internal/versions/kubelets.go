package versions

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

// kubeletSkew is by how many minors a kubelet may be older than kube-apiserver
// (https://kubernetes.io/releases/version-skew-policy).
const kubeletSkew = 3

// Kubelet is the kubelet of a Node.
type Kubelet struct {
	// Node is the name of the Node.
	Node string
	// Version is what the kubelet says of itself, for example "v1.36.3" or "v1.36.3-vendor.7".
	Version string
}

// ValidateKubelets refuses a version of API servers that kubelets are too old for. The error names the oldest of these
// and how many others there are. A kubelet that is newer than the API servers is no reason to stay where they are. Nor
// is one whose version cannot be read: it does not tell its age, and there may be no other version to bring it to.
func ValidateKubelets(to string, kubelets []Kubelet) error {
	target, err := Parse(to)
	if err != nil {
		return err
	}
	oldest := version.MustParseGeneric(target.MinorString() + ".0").SubtractMinor(kubeletSkew)
	outdated := slices.DeleteFunc(slices.Clone(kubelets), func(kubelet Kubelet) bool {
		is, err := version.ParseGeneric(kubelet.Version)
		return err != nil || is.AtLeast(oldest)
	})
	if len(outdated) == 0 {
		return nil
	}
	first := slices.MinFunc(outdated, func(a, b Kubelet) int {
		older, _ := version.MustParseGeneric(a.Version).Compare(b.Version)
		return cmp.Or(older, cmp.Compare(a.Node, b.Node))
	})
	others := ""
	if n := len(outdated) - 1; n > 0 {
		others = fmt.Sprintf(", and %d more are too old", n)
	}
	minor := fmt.Sprintf("v%d.%d", oldest.Major(), oldest.Minor())
	return fmt.Errorf("the kubelet of Node %s is %s%s: API servers of %s need kubelets of %s or newer; upgrade these workers to at least %s first",
		first.Node, first.Version, others, target.MinorString(), minor, minor)
}
