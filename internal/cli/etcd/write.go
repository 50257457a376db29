package etcd

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
)

// refuseControlPlane refuses a Cluster that has a KOKControlPlane: its etcd has data, and its keys are in use.
func (r *restorer) refuseControlPlane(ctx context.Context) error {
	name, err := access.ControlPlaneName(ctx, r.client, r.key)
	if err != nil {
		return err
	}
	all := &controlplanev1.KOKControlPlaneList{}
	if err := r.client.List(ctx, all, client.InNamespace(r.key.Namespace)); err != nil {
		return fmt.Errorf("list the KOKControlPlanes of namespace %s: %w", r.key.Namespace, err)
	}
	for i := range all.Items {
		found := &all.Items[i]
		if found.Name == name || found.Labels[clusterv1.ClusterNameLabel] == r.key.Name {
			return fmt.Errorf("Cluster %s has KOKControlPlane %s already, and a snapshot is restored into a new one only; give the new Cluster another name, or delete the former Cluster first", //nolint:staticcheck // A kind.
				r.key, found.Name)
		}
	}
	return nil
}

// compare finds out what is not there yet, and refuses what is there and differs.
func (r *restorer) compare(ctx context.Context, p *plan, keys *opened) error {
	var others []string
	for _, secret := range pki.ManagementSecrets(r.key, keys.material) {
		there := &corev1.Secret{}
		switch err := r.client.Get(ctx, client.ObjectKeyFromObject(secret), there); {
		case apierrors.IsNotFound(err):
			p.secrets = append(p.secrets, secret)
		case err != nil:
			return fmt.Errorf("read Secret %s: %w", client.ObjectKeyFromObject(secret), err)
		case !sameKeys(secret, there):
			others = append(others, secret.Name)
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("namespace %s has Secrets with other keys than those of the snapshot: %s; give the new Cluster another name, or delete them if nothing uses them", r.key.Namespace, strings.Join(others, ", "))
	}
	wanted := &controlplanev1.KOKEtcdSnapshot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.key.Namespace, Name: r.key.Name + "-restore-" + strings.ToLower(p.slot), Labels: map[string]string{clusterv1.ClusterNameLabel: r.key.Name},
		},
		Spec: controlplanev1.KOKEtcdSnapshotSpec{Source: &controlplanev1.EtcdSnapshotSource{Store: r.flags.store(), Slot: p.slot}},
	}
	p.name = wanted.Name
	there := &controlplanev1.KOKEtcdSnapshot{}
	switch err := r.client.Get(ctx, client.ObjectKeyFromObject(wanted), there); {
	case apierrors.IsNotFound(err):
		p.snapshot = wanted
	case err != nil:
		return fmt.Errorf("read KOKEtcdSnapshot %s: %w", client.ObjectKeyFromObject(wanted), err)
	case !apiequality.Semantic.DeepEqual(there.Spec.Source, wanted.Spec.Source):
		return fmt.Errorf("KOKEtcdSnapshot %s is there and names another store; delete it first: kubectl delete koketcdsnapshot %s --namespace %s", //nolint:staticcheck // A kind.
			client.ObjectKeyFromObject(wanted), wanted.Name, wanted.Namespace)
	}
	return nil
}

// sameKeys reports whether a Secret has the keys of another one.
func sameKeys(wanted, there *corev1.Secret) bool {
	for key, value := range wanted.Data {
		if !bytes.Equal(there.Data[key], value) {
			return false
		}
	}
	return true
}

// write creates what is missing: the KOKEtcdSnapshot last, so that whoever finds it finds the keys, too. The same command again
// goes on after a failure.
func (r *restorer) write(ctx context.Context, p *plan) error {
	for _, secret := range p.secrets {
		if err := r.client.Create(ctx, secret); err != nil {
			return notWritten("Secret", secret, err)
		}
	}
	if p.snapshot == nil {
		return nil
	}
	if err := r.client.Create(ctx, p.snapshot); err != nil {
		return notWritten("KOKEtcdSnapshot", p.snapshot, err)
	}
	return nil
}

func notWritten(kind string, object client.Object, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s: somebody created it meanwhile; run the command again", kind, client.ObjectKeyFromObject(object))
	}
	return fmt.Errorf("create %s %s: %w", kind, client.ObjectKeyFromObject(object), err)
}
