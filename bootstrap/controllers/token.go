package controllers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/tokens"
)

// accept makes the tenant accept a token for another TokenTTL.
func (r *Reconciler) accept(ctx context.Context, s *scope, tenant client.Client, token string) error {
	expiration := r.Clock.Now().Add(r.TokenTTL).Truncate(time.Second)
	description := fmt.Sprintf("for Machine %s/%s", s.machine.Namespace, s.machine.Name)
	if err := tokens.Ensure(ctx, tenant, token, description, expiration); err != nil {
		return err
	}
	if former := s.config.Status.BootstrapToken.ID; former != "" && former != tokens.ID(token) {
		// The former token was in bootstrap data that were deleted before they were used.
		if err := tokens.Revoke(ctx, tenant, former); err != nil {
			return err
		}
	}
	s.config.Status.BootstrapToken = bootstrapv1.BootstrapTokenStatus{ID: tokens.ID(token), ExpirationTime: metav1.NewTime(expiration)}
	s.set(bootstrapv1.BootstrapTokenValidCondition, metav1.ConditionTrue, bootstrapv1.BootstrapTokenValidReason, "")
	return nil
}

// renew keeps the token valid while the machine has not joined. The token itself stays the same, even when it expired while
// no manager ran.
func (r *Reconciler) renew(ctx context.Context, s *scope) (ctrl.Result, error) {
	status := s.config.Status.BootstrapToken
	if !status.ExpirationTime.IsZero() && status.ExpirationTime.Sub(r.Clock.Now()) > r.TokenTTL/2 {
		return r.renewalDue(s), nil
	}
	tenant, err := r.Tenants.GetUncachedClient(ctx, client.ObjectKeyFromObject(s.cluster))
	if err != nil {
		return r.unreachable(s, err)
	}
	token, err := r.recordedToken(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if token == "" {
		s.set(bootstrapv1.BootstrapTokenValidCondition, metav1.ConditionUnknown, bootstrapv1.BootstrapTokenUnknownReason, fmt.Sprintf(
			"Secret %s holds no bootstrap token of this controller: none is renewed", s.config.Status.DataSecretName))
		return ctrl.Result{}, nil
	}
	if err := r.accept(ctx, s, tenant, token); err != nil {
		return ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).V(2).Info("The machine has not joined; its bootstrap token was renewed", "token", tokens.ID(token))
	return r.renewalDue(s), nil
}

// renewalDue wakes the controller when half of the token's life is over.
func (r *Reconciler) renewalDue(s *scope) ctrl.Result {
	due := s.config.Status.BootstrapToken.ExpirationTime.Add(-r.TokenTTL / 2).Sub(r.Clock.Now())
	return ctrl.Result{RequeueAfter: max(due, time.Second)}
}

// revoke ends the token of a machine that has joined, or that is being deleted.
func (r *Reconciler) revoke(ctx context.Context, s *scope) (ctrl.Result, error) {
	if conditions.GetReason(s.config, bootstrapv1.BootstrapTokenValidCondition) == bootstrapv1.BootstrapTokenRevokedReason {
		s.noteRevoked(s.config.Status.BootstrapToken.ID)
		return ctrl.Result{}, nil
	}
	id := s.config.Status.BootstrapToken.ID
	if id == "" {
		token, err := r.recordedToken(ctx, s)
		if err != nil {
			return ctrl.Result{}, err
		}
		id = tokens.ID(token)
	}
	message := "it had been revoked when this config was moved or restored"
	switch {
	case s.joined():
		message = "the machine has joined"
	case !s.machine.DeletionTimestamp.IsZero():
		message = "the Machine is being deleted"
	}
	if id != "" {
		tenant, err := r.Tenants.GetUncachedClient(ctx, client.ObjectKeyFromObject(s.cluster))
		if err != nil {
			return r.unreachable(s, err)
		}
		if err := tokens.Revoke(ctx, tenant, id); err != nil {
			return ctrl.Result{}, err
		}
		ctrl.LoggerFrom(ctx).Info("The bootstrap token was revoked", "token", id, "reason", message)
	}
	s.noteRevoked(id)
	s.config.Status.BootstrapToken = bootstrapv1.BootstrapTokenStatus{ID: id}
	s.set(bootstrapv1.BootstrapTokenValidCondition, metav1.ConditionFalse, bootstrapv1.BootstrapTokenRevokedReason, message)
	return ctrl.Result{}, nil
}

// noteRevoked writes an annotation that the token was revoked: a move and a restore keep annotations, and drop status.
func (s *scope) noteRevoked(id string) {
	if id != "" {
		annotations.AddAnnotations(s.config, map[string]string{bootstrapv1.TokenRevokedAnnotation: id})
	}
}

// revokedBefore reports whether the machine's token was revoked already, even when a move or a restore dropped status.
func (r *Reconciler) revokedBefore(ctx context.Context, s *scope) (bool, error) {
	revoked := s.config.Annotations[bootstrapv1.TokenRevokedAnnotation]
	if revoked == "" {
		return false, nil
	}
	if id := s.config.Status.BootstrapToken.ID; id != "" {
		return id == revoked, nil
	}
	token, err := r.recordedToken(ctx, s)
	// The annotation is of another token when the data was made anew, or when the config is a copy.
	return token == "" || tokens.ID(token) == revoked, err
}

// recordedToken is the token in the data Secret; empty when the Secret is gone or not the config's.
func (r *Reconciler) recordedToken(ctx context.Context, s *scope) (string, error) {
	live := &corev1.Secret{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.config.Namespace, Name: s.config.Status.DataSecretName}, live)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get Secret %s with the bootstrap data: %w", s.config.Status.DataSecretName, err)
	}
	token, err := cloudinit.Token(live.Data[valueKey])
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("The bootstrap data is not this controller's", "reason", err.Error())
		return "", nil
	}
	return token, nil
}

// apiServers are the addresses in the EndpointSlice default/kubernetes, which the tenant's API servers write.
func apiServers(ctx context.Context, tenant client.Reader) ([]string, error) {
	slice := &discoveryv1.EndpointSlice{}
	err := tenant.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, slice)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get the tenant's EndpointSlice default/kubernetes: %w", err)
	}
	return addresses(slice), nil
}

// addresses are the ready endpoints of an EndpointSlice as host:port, sorted.
func addresses(slice *discoveryv1.EndpointSlice) []string {
	var found []string
	for _, port := range slice.Ports {
		if port.Port == nil || ptr.Deref(port.Name, "https") != "https" {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if !ptr.Deref(endpoint.Conditions.Ready, true) {
				continue
			}
			for _, address := range endpoint.Addresses {
				found = append(found, net.JoinHostPort(address, strconv.Itoa(int(*port.Port))))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
