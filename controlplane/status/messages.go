package status

import (
	"k8s.io/apimachinery/pkg/api/equality"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// OnlyMessages reports whether two states of a control plane differ only in messages of conditions, or not at all. No controller decides by
// these messages, so they may be written later than all else, and wake no reconcile.
func OnlyMessages(one, other *controlplanev1.KOKControlPlane) bool {
	return equality.Semantic.DeepEqual(withoutMessages(one), withoutMessages(other))
}

// withoutMessages also leaves out what the API server changes with each write.
func withoutMessages(controlPlane *controlplanev1.KOKControlPlane) *controlplanev1.KOKControlPlane {
	rest := controlPlane.DeepCopy()
	rest.ResourceVersion, rest.ManagedFields = "", nil
	for i := range rest.Status.Conditions {
		rest.Status.Conditions[i].Message = ""
	}
	return rest
}
