package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/tokens"
)

// Keys of the data Secret.
const (
	valueKey  = "value"
	formatKey = "format"
)

// mint writes the Secret and makes the tenant accept the token in it. When the Secret exists already, its token is used.
func (r *Reconciler) mint(ctx context.Context, s *scope, tenant client.Client, in *cloudinit.Input) error {
	live, err := r.liveSecret(ctx, s)
	if err != nil {
		return err
	}
	if live != nil {
		if in.Token, err = cloudinit.Token(live.Data[valueKey]); err != nil {
			return &conflictError{fmt.Errorf("secret %s has content that is not the controller's (%w); delete it", live.Name, err)}
		}
	} else if in.Token, err = tokens.New(); err != nil {
		return err
	}
	if err := r.writeSecret(ctx, s, live, in); err != nil {
		return err
	}
	err = r.accept(ctx, s, tenant, in.Token)
	if errors.Is(err, tokens.ErrTaken) {
		// Another machine has the same id by chance. The data was not handed out yet, so it gets another token.
		if in.Token, err = tokens.New(); err != nil {
			return err
		}
		if live, err = r.liveSecret(ctx, s); err != nil {
			return err
		}
		if err := r.writeSecret(ctx, s, live, in); err != nil {
			return err
		}
		err = r.accept(ctx, s, tenant, in.Token)
	}
	return err
}

// liveSecret is the data Secret as the API server has it, nil when there is none.
func (r *Reconciler) liveSecret(ctx context.Context, s *scope) (*corev1.Secret, error) {
	live := &corev1.Secret{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.config), live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s with the bootstrap data: %w", s.config.Name, err)
	}
	if !s.owns(live) {
		return nil, &conflictError{fmt.Errorf("secret %s is there and does not belong to this KOKConfig; delete or rename it", live.Name)}
	}
	return live, nil
}

// cacheIsLate reports whether the bootstrap data was handed out and the cache does not show it yet, though it shows the Secret with them. The
// event of the Secret wakes the controller before that of the config comes, and all would be made again for nothing.
func (r *Reconciler) cacheIsLate(ctx context.Context, s *scope) (bool, error) {
	if s.created() {
		return false, nil
	}
	key := client.ObjectKeyFromObject(s.config)
	if err := r.Client.Get(ctx, key, &corev1.Secret{}); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	live := &bootstrapv1.KOKConfig{}
	if err := r.APIReader.Get(ctx, key, live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return (&scope{config: live}).created(), nil
}

func (r *Reconciler) writeSecret(ctx context.Context, s *scope, live *corev1.Secret, in *cloudinit.Input) error {
	document, err := cloudinit.Render(*in)
	if err != nil {
		return &invalidError{err}
	}
	if size := len(document) + len(bootstrapv1.CloudConfig); size > corev1.MaxSecretSize {
		return &invalidError{fmt.Errorf(
			"spec.files: with the files the bootstrap data have %d bytes, and a Secret holds %d at most; compress files, or have a command or software.downloads fetch them", size, corev1.MaxSecretSize)}
	}
	wanted := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.config.Namespace, Name: s.config.Name,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name},
			OwnerReferences: []metav1.OwnerReference{s.ownerReference()},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{valueKey: document, formatKey: []byte(bootstrapv1.CloudConfig)},
	}
	if live == nil {
		if err := r.Client.Create(ctx, wanted); err != nil {
			return fmt.Errorf("create Secret %s with the bootstrap data: %w", wanted.Name, err)
		}
		return nil
	}
	if repaired := s.adopt(live); !repaired && maps.EqualFunc(live.Data, wanted.Data, bytes.Equal) {
		return nil
	}
	live.Data = wanted.Data
	if err := r.Client.Update(ctx, live); err != nil {
		return fmt.Errorf("update Secret %s with the bootstrap data: %w", wanted.Name, err)
	}
	return nil
}

// owns reports whether a Secret is the config's, also after a restore. A restored config may have another UID. A restored
// Secret may have no owner: then it is the config's when the data was handed out and the Secret has the Cluster's label.
func (s *scope) owns(live *corev1.Secret) bool {
	if live.Type != clusterv1.ClusterSecretType {
		return false
	}
	owner := metav1.GetControllerOf(live)
	if owner == nil {
		return s.created() && live.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name
	}
	return owner.Kind == "KOKConfig" && owner.Name == s.config.Name
}

func (s *scope) ownerReference() metav1.OwnerReference {
	return *metav1.NewControllerRef(s.config, bootstrapv1.GroupVersion.WithKind("KOKConfig"))
}

// adopt gives a Secret the owner and the label that garbage collection, moves and the cache need. It reports whether they
// were missing.
func (s *scope) adopt(live *corev1.Secret) bool {
	if s.adopted(live) {
		return false
	}
	live.OwnerReferences = []metav1.OwnerReference{s.ownerReference()}
	if live.Labels == nil {
		live.Labels = map[string]string{}
	}
	live.Labels[clusterv1.ClusterNameLabel] = s.cluster.Name
	return true
}

func (s *scope) adopted(found *corev1.Secret) bool {
	owner := metav1.GetControllerOf(found)
	return owner != nil && owner.UID == s.config.UID && found.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name
}

// keepSecret reports whether the data Secret exists, and repairs its owner and label. When the cache lacks it, the API server
// is read: the cache has only Secrets with the label.
func (r *Reconciler) keepSecret(ctx context.Context, s *scope) (found bool, _ error) {
	key := client.ObjectKey{Namespace: s.config.Namespace, Name: s.config.Status.DataSecretName}
	seen := &corev1.Secret{}
	err := r.Client.Get(ctx, key, seen)
	labelled := err == nil
	if apierrors.IsNotFound(err) {
		err = r.APIReader.Get(ctx, key, seen)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get Secret %s with the bootstrap data: %w", key.Name, err)
	}
	if key.Name != s.config.Name || s.adopted(seen) {
		return true, nil
	}
	live, err := r.liveSecret(ctx, s)
	var conflict *conflictError
	if errors.As(err, &conflict) {
		ctrl.LoggerFrom(ctx).Info("The Secret with the bootstrap data has another owner", "Secret", klog.KRef(key.Namespace, key.Name))
		return labelled, nil
	}
	if live == nil || err != nil {
		return false, err
	}
	if !s.adopt(live) {
		return true, nil
	}
	if err := r.Client.Update(ctx, live); err != nil {
		return true, fmt.Errorf("repair the owner and the label of Secret %s with the bootstrap data: %w", live.Name, err)
	}
	return true, nil
}

// keepTrust puts the present cluster CAs into the bootstrap data, until an infrastructure provider is known to have read the data. A rotation
// changes the cluster CAs. A machine that waited for a host meanwhile could not join with the former ones.
func (r *Reconciler) keepTrust(ctx context.Context, s *scope) error {
	if s.used() || !s.machine.DeletionTimestamp.IsZero() || s.config.Status.DataSecretName != s.config.Name {
		return nil
	}
	trusted, err := r.trustedCAs(ctx, s)
	if len(trusted) == 0 || err != nil {
		return err
	}
	live, err := r.liveSecret(ctx, s)
	var conflict *conflictError
	if errors.As(err, &conflict) {
		return nil // keepSecret told of it.
	}
	if live == nil || err != nil {
		return err
	}
	data, err := cloudinit.Trust(live.Data[valueKey], trusted)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("The bootstrap data is not this controller's", "reason", err.Error())
		return nil
	}
	if bytes.Equal(data, live.Data[valueKey]) {
		return nil
	}
	live.Data[valueKey] = data
	if err := r.Client.Update(ctx, live); err != nil {
		return fmt.Errorf("have the bootstrap data in Secret %s trust the cluster CAs: %w", live.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("The bootstrap data was not used yet, and trusts the present cluster CAs now", "Secret", klog.KObj(live))
	return nil
}
