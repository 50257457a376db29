package controllers

import (
	"cmp"
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addresses"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// applyServices makes the Services of all components and learns their addresses. It keeps the first address of each Service, because
// certificates and etcd members name it. From then on each Service asks for its recorded address, even if the Service is there: somebody
// may delete it at any moment.
func (r *Reconciler) applyServices(ctx context.Context, s *scope) flow.Result {
	recorded, err := addresses.Read(ctx, s.revisions, s.key)
	if err != nil {
		return flow.Failed(err)
	}
	present, err := addresses.Present(ctx, s.host.Client, s.key)
	if err != nil {
		return flow.Failed(err)
	}
	misplaced, problem := addresses.Misplaced(recorded.Services, present)
	s.note(problem)
	members := r.members(s) // It sees what is set in input below.
	if s.input.EtcdMembers, err = members.Beyond(ctx, recorded.Services, present); err != nil {
		return flow.Failed(err)
	}
	plan, err := addresses.Decide(s.input, recorded, present, misplaced)
	maps.Copy(s.input.Addresses, plan.Known)
	if err != nil {
		return flow.Failed(err)
	}
	applied, err := members.ApplyAll(ctx, plan.Apply)
	if err != nil {
		return flow.Failed(err)
	}
	for _, object := range applied {
		service := object.(*corev1.Service)
		s.input.Addresses[service.Name] = service.Spec.ClusterIP
		present[service.Name] = service
	}
	if err := members.DeleteServices(ctx, present); err != nil {
		return flow.Failed(err)
	}
	waiting := s.expose(present[names.APIService(s.key.Name)], recorded.Exposure)
	given := addresses.Record{Services: s.input.Addresses, Exposure: s.input.Exposure}
	if err := given.Write(ctx, s.revisions, s.key); err != nil {
		return flow.Failed(err)
	}
	if waiting != "" {
		return flow.Waiting(waiting)
	}
	if problem := addresses.ValidateFamily(&s.input); problem != nil && !runs(s.controlPlane) {
		return flow.Blocked(conditionsv1.ReconcileFailedReason, problem)
	}
	s.controlPlane.Spec.ControlPlaneEndpoint = addresses.Endpoint(s.cluster, s.controlPlane, controlplanev1.APIEndpoint{
		Host: cmp.Or(s.input.Exposure.Address, s.input.Addresses[names.APIService(s.key.Name)]), Port: s.input.Network.APIServerPort,
	})
	return flow.Done()
}

// expose learns where API servers on the pod network are reached. waiting says what the host cluster must still give.
func (s *scope) expose(service *corev1.Service, recorded components.Exposure) (waiting string) {
	if !s.input.OnPodNetwork() {
		return ""
	}
	exposed, waiting, problem := addresses.Exposed(&s.input, service, recorded)
	s.note(problem)
	if waiting == "" {
		s.input.Exposure, s.input.Ports = exposed, ports.OnPodNetwork(exposed.Port)
	}
	return waiting
}
