package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/volumes"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get

// resizeVolumes has the volume claims of an etcd cluster ask for the size of spec, where that is not the size in the StatefulSet among
// objects: nobody can change it there, and so claims of new members begin with it. What the host cluster refuses is noted.
func resizeVolumes(ctx context.Context, s *scope, cluster etcdcomponent.Cluster, objects []client.Object) error {
	founded, wanted := volumeSize(objects), etcdclusters.Spec(s.controlPlane, cluster.Component).Storage.Size
	if founded == nil || wanted == nil || founded.Cmp(*wanted) == 0 {
		return nil
	}
	field := "spec.etcd." + cluster.Field + ".storage.size"
	err := askForSize(ctx, s, cluster.Component, field, *wanted)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		s.note(fmt.Errorf("%s is %s: %w: set a size that is allowed, or have it allowed", field, wanted, err))
		return nil
	}
	return err
}

// askForSize has the volume claims of an etcd cluster ask for a size, as package volumes decides, and notes what hinders.
func askForSize(ctx context.Context, s *scope, component, field string, wanted resource.Quantity) error {
	found, err := operator.VolumeClaims(ctx, s.host.Live, s.key, component) // No cache holds them.
	if err != nil {
		return err
	}
	claims, err := claimsToResize(ctx, s.host.Live, found)
	if err != nil {
		return err
	}
	plan := volumes.Decide(field, wanted, claims)
	if plan.Problem != "" {
		s.note(errors.New(plan.Problem))
	}
	for i := range found {
		if !slices.Contains(plan.Ask, found[i].Name) {
			continue
		}
		if err := resizeVolume(ctx, s, &found[i], wanted); err != nil {
			return err
		}
	}
	return nil
}

// resizeVolume has a claim ask for a size.
func resizeVolume(ctx context.Context, s *scope, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	seen := claim.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
	unchanged := client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{})
	if err := s.host.Client.Patch(ctx, claim, unchanged, client.FieldOwner(names.FieldManager)); err != nil {
		return fmt.Errorf("have volume claim %s ask for %s: %w", client.ObjectKeyFromObject(claim), size.String(), err)
	}
	return nil
}

// claimsToResize is what package volumes has to know of claims.
func claimsToResize(ctx context.Context, reader client.Reader, found []corev1.PersistentVolumeClaim) ([]volumes.Claim, error) {
	grow := map[string]bool{}
	var claims []volumes.Claim
	for _, claim := range found {
		class := ptr.Deref(claim.Spec.StorageClassName, "")
		if _, known := grow[class]; class != "" && !known {
			read := &storagev1.StorageClass{}
			if err := reader.Get(ctx, client.ObjectKey{Name: class}, read); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("read StorageClass %s: %w", class, err)
			}
			grow[class] = ptr.Deref(read.AllowVolumeExpansion, false)
		}
		refused := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
		claims = append(claims, volumes.Claim{
			Name: claim.Name, Asked: claim.Spec.Resources.Requests[corev1.ResourceStorage], Size: claim.Status.Capacity[corev1.ResourceStorage],
			Bound: claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil, Class: class, Grows: grow[class],
			Refused: refused == corev1.PersistentVolumeClaimControllerResizeInfeasible || refused == corev1.PersistentVolumeClaimNodeResizeInfeasible,
		})
	}
	return claims, nil
}

// volumeSize is the size of volumes in the StatefulSet among objects; nil where it has none.
func volumeSize(objects []client.Object) *resource.Quantity {
	for _, object := range objects {
		if set, ok := object.(*appsv1.StatefulSet); ok {
			return etcdcomponent.VolumeSize(set)
		}
	}
	return nil
}
