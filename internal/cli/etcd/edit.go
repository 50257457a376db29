package etcd

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// errEdited is why nothing is written: somebody else edited the spec since a person was told what will happen.
var errEdited = errors.New("somebody edited its spec meanwhile: look at it, and run the command again")

// editSpec changes the spec of a control plane as it was read. When only its status or its metadata has changed since, it reads the control
// plane and tries again. When its spec has changed, it writes nothing and returns errEdited.
func editSpec(ctx context.Context, c client.Client, of *controlplanev1.KOKControlPlane, change func(*controlplanev1.KOKControlPlaneSpec)) error {
	read, first := of.Generation, true
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !first {
			if err := c.Get(ctx, client.ObjectKeyFromObject(of), of); err != nil {
				return fmt.Errorf("read it again: %w", err)
			}
			if of.Generation != read {
				return errEdited
			}
		}
		first = false
		before := of.DeepCopy()
		change(&of.Spec)
		err := c.Patch(ctx, of, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			before.DeepCopyInto(of)
		}
		return err
	})
}
