package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get

// Kind is what volumes are for.
type Kind string

// Kinds of volumes.
const (
	Data      Kind = "data"
	Snapshots Kind = "snapshots"
)

// Resize makes the volume claims of an etcd cluster ask for the size in a field of spec, as Decide says. problems tell people what hinders
// that, including what the host cluster refuses.
func Resize(ctx context.Context, host *hostclusters.Host, tenant client.ObjectKey, component string, kind Kind, field string, wanted resource.Quantity) (problems []error, err error) {
	plan, err := askForSize(ctx, host, tenant, component, kind, field, wanted)
	if plan.Problem != "" {
		problems = append(problems, errors.New(plan.Problem))
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return append(problems, fmt.Errorf("%s is %s: %w: set a size that is allowed, or have it allowed", field, wanted.String(), err)), nil
	}
	return problems, err
}

// askForSize returns the plan if it made one, even when it fails.
func askForSize(ctx context.Context, host *hostclusters.Host, tenant client.ObjectKey, component string, kind Kind, field string, wanted resource.Quantity) (Plan, error) {
	found, snapshots, err := operator.AllVolumeClaims(ctx, host.Live, tenant, component) // No cache holds them.
	if err != nil {
		return Plan{}, err
	}
	if kind == Snapshots {
		found = snapshots
	}
	claims, err := claimsToResize(ctx, host.Live, found)
	if err != nil {
		return Plan{}, err
	}
	plan := Decide(field, wanted, claims)
	for i := range found {
		if !slices.Contains(plan.Ask, found[i].Name) {
			continue
		}
		if err := resizeVolume(ctx, host.Client, &found[i], wanted); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

// resizeVolume makes a claim ask for a size.
func resizeVolume(ctx context.Context, host client.Writer, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	seen := claim.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
	unchanged := client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{})
	if err := host.Patch(ctx, claim, unchanged, client.FieldOwner(names.FieldManager)); err != nil {
		return fmt.Errorf("have volume claim %s ask for %s: %w", client.ObjectKeyFromObject(claim), size.String(), err)
	}
	return nil
}

// claimsToResize reads what Decide has to know about claims.
func claimsToResize(ctx context.Context, reader client.Reader, found []corev1.PersistentVolumeClaim) ([]Claim, error) {
	grow := map[string]bool{}
	var claims []Claim
	for _, claim := range found {
		class := ptr.Deref(claim.Spec.StorageClassName, "")
		if _, known := grow[class]; class != "" && !known {
			read := &storagev1.StorageClass{}
			if err := reader.Get(ctx, client.ObjectKey{Name: class}, read); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("read StorageClass %s: %w", class, err)
			}
			grow[class] = ptr.Deref(read.AllowVolumeExpansion, false)
		}
		claims = append(claims, Claim{
			Name: claim.Name, Asked: claim.Spec.Resources.Requests[corev1.ResourceStorage], Size: claim.Status.Capacity[corev1.ResourceStorage],
			Bound: claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil, Class: class, Grows: grow[class],
			Refusal: refusal(&claim),
		})
	}
	return claims, nil
}

// refusal is the storage's last error about growing the volume of a claim; empty for none. AllocatedResourceStatuses does not tell: it goes back
// to pending at each try. These conditions stay until another size is tried or the volume has grown.
func refusal(claim *corev1.PersistentVolumeClaim) string {
	for _, condition := range claim.Status.Conditions {
		failed := condition.Type == corev1.PersistentVolumeClaimControllerResizeError || condition.Type == corev1.PersistentVolumeClaimNodeResizeError
		if failed && condition.Status == corev1.ConditionTrue {
			return errortext.SteadyText(cmp.Or(condition.Message, string(condition.Type)))
		}
	}
	return ""
}
