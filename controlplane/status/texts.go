package status

import (
	"k8s.io/apimachinery/pkg/api/equality"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// OnlyTexts reports whether two states of a control plane differ only in messages of conditions, or not at all. Nothing is decided by these
// messages: they may be written later than all else, and wake nobody.
func OnlyTexts(one, other *controlplanev1.KOKControlPlane) bool {
	return equality.Semantic.DeepEqual(withoutTexts(one), withoutTexts(other))
}

// withoutTexts also leaves out what the API server changes with each write.
func withoutTexts(controlPlane *controlplanev1.KOKControlPlane) *controlplanev1.KOKControlPlane {
	rest := controlPlane.DeepCopy()
	rest.ResourceVersion, rest.ManagedFields = "", nil
	for i := range rest.Status.Conditions {
		rest.Status.Conditions[i].Message = ""
	}
	return rest
}
