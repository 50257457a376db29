package revision

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// UserOf finds the UID that the tenant's pods run as. Pods of a new tenant get a UID of their own. Pods of any other tenant keep
// the UID that they have, because the files of running members belong to it: the stored rendering of etcd tells it.
func (s *Store) UserOf(ctx context.Context, in *components.Input) (int64, error) {
	user, known, err := s.RenderedUser(ctx, in.Cluster, names.EtcdData)
	if err == nil && !known {
		user, err = s.runningUser(ctx, in)
	}
	if err != nil {
		return 0, err
	}
	// Who may write ControllerRevisions may write any user.
	if own := in.OwnUser(); known && user != 0 && user != own {
		return 0, fmt.Errorf("the newest ControllerRevision of %s says that its pods run as %d, and its own user is %d: find out who wrote it, and delete it",
			names.Object(in.Cluster.Name, names.EtcdData), user, own)
	}
	return user, nil
}

// runningUser is for a tenant without a stored rendering: one that is new, or whose renderings were lost.
func (s *Store) runningUser(ctx context.Context, in *components.Input) (int64, error) {
	key := client.ObjectKey{Namespace: in.Cluster.Namespace, Name: names.Object(in.Cluster.Name, names.EtcdData)}
	running := &appsv1.StatefulSet{}
	// A cache that lacks it would give the pods another user, who cannot read their files.
	err := s.Live.Get(ctx, key, running)
	if apierrors.IsNotFound(err) {
		return in.OwnUser(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("find whom the pods of StatefulSet %s run as: %w", key, err)
	}
	user := components.SharedUser
	if security := running.Spec.Template.Spec.SecurityContext; security != nil {
		user = ptr.Deref(security.RunAsUser, user)
	}
	if user == components.SharedUser {
		return 0, nil
	}
	return user, nil
}
