package restore

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;patch

// keepVolumes notes on the volume claims of the former members that members of the new etcd begin there: their former data are put aside,
// and not deleted with the volume. Members that a person gave up are left out, because their volumes may never be reached again.
func (p *Progress) keepVolumes(ctx context.Context, of *Facts) error {
	var former []string
	for _, m := range p.Record.Members {
		former = append(former, m.Name)
	}
	claims, err := operator.VolumeClaims(ctx, of.Host.Live, of.Cluster, names.EtcdData, former)
	if err != nil {
		return err
	}
	givenUp := of.ControlPlane.Spec.Etcd.GivenUp
	if p.automatic != nil {
		givenUp = nil // A person may have named them at an earlier loss.
	}
	for i := range claims {
		claim := &claims[i]
		if claim.Annotations[recovery.FormerAnnotation] != "" || claim.DeletionTimestamp != nil || slices.Contains(givenUp, operator.MemberOf(claim)) {
			continue
		}
		unchanged := client.MergeFromWithOptions(claim.DeepCopy(), client.MergeFromWithOptimisticLock{})
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, recovery.FormerAnnotation, p.Record.Restore)
		if err := of.Host.Client.Patch(ctx, claim, unchanged, client.FieldOwner(names.FieldManager)); err != nil {
			return fmt.Errorf("note on volume claim %s that it has former data: %w", client.ObjectKeyFromObject(claim), err)
		}
	}
	return nil
}
