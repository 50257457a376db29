package controllers

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addresses"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/keyrotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/panics"
)

// ensureKeyMaterial keeps both copies of the key material, and goes on with the rotation of a key.
func (r *Reconciler) ensureKeyMaterial(ctx context.Context, s *scope) flow.Result {
	if err := r.readKeys(ctx, s, false); err != nil {
		return keyrotation.Failed(err)
	}
	for _, ca := range []pki.CA{s.keys.ClusterCA, s.keys.EtcdCA, s.keys.EtcdEventsCA, s.keys.FrontProxyCA} {
		s.endsAt(ca.Certificate.NotAfter)
	}
	return r.rotateKeys(ctx, s)
}

// readKeys reads key material, and puts right what differs from it.
func (r *Reconciler) readKeys(ctx context.Context, s *scope, live bool) error {
	keys, err := s.store.Ensure(ctx, pki.Request{
		Cluster:    s.key,
		Owner:      s.owner(),
		HostOwner:  s.hostOwner(),
		Encryption: s.controlPlane.Spec.EncryptionAtRest,
		Live:       live,
		UsedBy: func(ctx context.Context) (string, error) {
			return keysUsedBy(ctx, s)
		},
	})
	if err != nil {
		return err
	}
	r.tellOfKeys(s, keys)
	s.keys = keys
	return nil
}

// tellOfKeys makes Events of keys that were made or restored. One event each: Kubernetes folds events of one reason into a series, and
// keeps only the first text.
func (r *Reconciler) tellOfKeys(s *scope, keys *pki.KeyMaterial) {
	if len(keys.Generated) > 0 {
		r.recorder.Eventf(s.controlPlane, nil, corev1.EventTypeNormal, "KeyMaterialGenerated", "GenerateKey",
			"Generated %s", strings.Join(keys.Generated, ", "))
	}
	if len(keys.Copied) > 0 {
		copied := make([]string, 0, len(keys.Copied))
		for _, where := range keys.Copied {
			copied = append(copied, where.String())
		}
		r.recorder.Eventf(s.controlPlane, nil, corev1.EventTypeWarning, "KeyMaterialRestored", "RestoreKey",
			"Restored %s from the other copy", strings.Join(copied, ", "))
	}
}

// rotateKeys takes the next steps of rotations of keys, and has renderings follow their phases.
func (r *Reconciler) rotateKeys(ctx context.Context, s *scope) flow.Result {
	step := r.rotator().Next(ctx, &keyrotation.Facts{
		ControlPlane: s.controlPlane, Cluster: s.key, Host: s.host, Pods: s.snapshot.Pods,
		Store: s.store, Revisions: s.revisions, Input: &s.input, Keys: s.keys,
		ReadKeys: func(ctx context.Context) (*pki.KeyMaterial, error) {
			err := r.readKeys(ctx, s, true)
			return s.keys, err
		},
		Problem: s.problem, Runs: runs(s.controlPlane), Restoring: s.rebuild.asked(), Rotated: s.deeds.Rotate,
	})
	if step.Keys != nil {
		keyrotation.SetFiles(&s.input, step.Keys)
	}
	s.rotations, s.nodes = step.Rotations, step.Nodes
	if step.Probing {
		s.probing = true
	}
	return step.Result
}

func (r *Reconciler) rotator() *keyrotation.Rotator {
	return &keyrotation.Rotator{Prober: r.prober, Clock: r.Clock, Tenants: r.tenants(), Etcd: r.etcd, Reads: &r.reads, NodeKeysImage: r.NodeKeysImage}
}

// keysUsedBy is a component that uses key material, or data of one; empty when none was ever applied. It reads from the
// API server: new keys must not replace those that a cache does not know of yet.
func keysUsedBy(ctx context.Context, s *scope) (string, error) {
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := s.host.Live.List(ctx, list, client.InNamespace(s.key.Namespace),
			client.MatchingLabels(names.Labels(s.key)), client.Limit(1)); err != nil {
			return "", fmt.Errorf("look for components of cluster %s: %w", s.key, err)
		}
		if len(list.Items) > 0 {
			return fmt.Sprintf("%s %s", kind.Kind, list.Items[0].Name), nil
		}
	}
	if ptr.Deref(s.controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return "a control plane that was initialized", nil
	}
	return "", nil
}

func (r *Reconciler) ensureCertificates(ctx context.Context, s *scope) flow.Result {
	secrets, err := Certificates(&s.input, s.keys, s.controlPlane.Spec.ControlPlaneEndpoint.Host, s.controlPlane.Spec.KubeAPIServer.CertSANs)
	if err != nil {
		return flow.Failed(err)
	}
	issuer := certificates.Issuer{Keys: s.keys, Clock: r.Clock}
	group, together := errgroup.WithContext(ctx)
	for _, secret := range secrets {
		secret.Owner = s.hostOwner()
		group.Go(func() (err error) {
			defer panics.Recover(together, "issuing certificates", &err)
			result, err := issuer.EnsureLeaves(together, s.store.Host, secret)
			s.renewAt(result.RenewAt)
			s.endsAt(result.EndsAt)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return flow.Failed(err)
	}
	return flow.DoneOrFailed(s.ensureMetricsCerts(ctx, issuer))
}

func (r *Reconciler) ensureKubeconfig(ctx context.Context, s *scope) flow.Result {
	issuer := certificates.Issuer{Keys: s.keys, Clock: r.Clock}
	result, err := issuer.EnsureKubeconfig(ctx, s.store.Management, certificates.KubeconfigRequest{
		Cluster: s.key,
		Owner:   s.owner(),
		Server:  "https://" + addresses.HostPort(s.controlPlane.Spec.ControlPlaneEndpoint),
	})
	s.renewAt(result.RenewAt)
	s.endsAt(result.EndsAt)
	if err != nil {
		return flow.Failed(err)
	}
	// The bootstrap manager connects by the kubeconfig once the control plane is initialized. The step is done where it is safe.
	return flow.DoneOrWaiting(result.Unsafe)
}
