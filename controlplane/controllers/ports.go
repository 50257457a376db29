package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// claimPorts claims the block of host ports and writes it into spec before anything uses it: a
// person who pins another block later must be refused. A tenant that runs keeps its block when the range of the manager is another. Pods
// on the pod network need none. With the ports it is known, too, whom the pods run as.
func (r *Reconciler) claimPorts(ctx context.Context, s *scope) flow.Result {
	if s.input.OnPodNetwork() {
		s.input.Ports = ports.OnPodNetwork(s.input.Network.APIServerPort)
		return flow.DoneOrFailed(chooseUser(ctx, s))
	}
	pinned := s.controlPlane.Spec.Hosting.Ports.First
	claims := s.host.Claims.In(s.controlPlane.Spec.Hosting.PortPool)
	claim := claims.Claim
	if runs(s.controlPlane) {
		claim = claims.Keep
	}
	first, err := claim(ctx, s.key, pinned)
	if err != nil {
		return ports.ClaimFailed(err)
	}
	if pinned == 0 {
		written := s.controlPlane.DeepCopy()
		written.Spec.Hosting.Ports = controlplanev1.PortBlock{First: first}
		if err := r.Client.Patch(ctx, written, client.MergeFromWithOptions(s.controlPlane.DeepCopy(), client.MergeFromWithOptimisticLock{})); err != nil {
			return flow.Failed(fmt.Errorf("write spec.hosting.ports: %w", err))
		}
		s.controlPlane.Spec.Hosting.Ports = written.Spec.Hosting.Ports
		s.input.Spec.Hosting.Ports = written.Spec.Hosting.Ports
		r.recorder.Eventf(s.controlPlane, nil, corev1.EventTypeNormal, "PortsClaimed", "ClaimPorts",
			"Claimed the host ports %d to %d", first, first+controlplanev1.PortBlockSize-1)
	}
	s.input.Ports = ports.Of(first)
	return flow.DoneOrFailed(chooseUser(ctx, s))
}

// chooseUser finds whom the tenant's pods run as.
func chooseUser(ctx context.Context, s *scope) error {
	user, err := s.revisions.UserOf(ctx, &s.input)
	if err == nil {
		s.input.User, s.revisions.User = user, user
	}
	return err
}
