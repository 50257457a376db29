package access

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

const kokControlPlane = "KOKControlPlane"

// Connect is a client, and the namespace that the command line names.
func (c *Cluster) Connect() (client.Client, string, error) {
	namespace, _, err := c.Namespace()
	if err != nil {
		return nil, "", err
	}
	made, err := c.Client()
	return made, namespace, err
}

// ControlPlaneName is the name of the KOKControlPlane that a person means by a name: that of a Cluster of this name, or the one
// of the name itself, which need not be there.
func ControlPlaneName(ctx context.Context, reader client.Reader, key client.ObjectKey) (string, error) {
	cluster := &clusterv1.Cluster{}
	err := reader.Get(ctx, key, cluster)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read Cluster %s: %w", key, err)
	}
	if ref := cluster.Spec.ControlPlaneRef; err == nil && ref.Kind == kokControlPlane && ref.Name != "" {
		return ref.Name, nil
	}
	return key.Name, nil
}

// ControlPlane is the KOKControlPlane that a person means by a name.
func ControlPlane(ctx context.Context, reader client.Reader, key client.ObjectKey) (*controlplanev1.KOKControlPlane, error) {
	name, err := ControlPlaneName(ctx, reader, key)
	if err != nil {
		return nil, err
	}
	found := &controlplanev1.KOKControlPlane{}
	at := client.ObjectKey{Namespace: key.Namespace, Name: name}
	switch err := reader.Get(ctx, at, found); {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no KOKControlPlane %s; name a Cluster or its KOKControlPlane, and choose its --namespace", at)
	case err != nil:
		return nil, fmt.Errorf("read KOKControlPlane %s: %w", at, err)
	}
	return found, nil
}
