package controllers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// applyServices makes the Services of all components and learns their addresses. An address is
// given once and kept: certificates and etcd members name it. From then on every Service asks for the one
// that was recorded, also those that are there: they may be deleted at any moment.
func (r *Reconciler) applyServices(ctx context.Context, s *scope) flow.Result {
	recorded, exposed, err := recordedAddresses(ctx, s)
	if err != nil {
		return flow.Failed(err)
	}
	present, err := presentServices(ctx, s)
	if err != nil {
		return flow.Failed(err)
	}
	misplaced, problem := otherAddresses(recorded, present)
	s.note(problem)
	if err := rememberMembers(ctx, s, recorded, present); err != nil {
		return flow.Failed(err)
	}
	in := s.input
	in.Addresses, in.Exposure = recorded, exposed
	var applied []client.Object
	for _, component := range registry.Components {
		if component.Services == nil {
			continue
		}
		services, err := component.Services(&in)
		if err != nil {
			return flow.Failed(err)
		}
		wanted, kept := patchedServices(component, &in, services, present)
		for _, service := range wanted {
			if misplaced[service.GetName()] {
				s.input.Addresses[service.GetName()] = recorded[service.GetName()]
			} else {
				applied = append(applied, service)
			}
		}
		for _, service := range kept {
			s.input.Addresses[service.Name] = cmp.Or(recorded[service.Name], service.Spec.ClusterIP)
		}
	}
	applied, err = applyAll(ctx, s, applied)
	if err != nil {
		return flow.Failed(err)
	}
	for _, object := range applied {
		service := object.(*corev1.Service)
		s.input.Addresses[service.Name] = service.Spec.ClusterIP
		present[service.Name] = service
	}
	if err := deleteServicesOfRemoved(ctx, s, present); err != nil {
		return flow.Failed(err)
	}
	waiting := s.expose(present[names.Object(s.key.Name, names.KubeAPIServer)], exposed)
	if err := recordAddresses(ctx, s); err != nil {
		return flow.Failed(err)
	}
	if waiting != "" {
		return flow.Waiting(waiting)
	}
	s.controlPlane.Spec.ControlPlaneEndpoint = endpointOf(s.cluster, s.controlPlane, controlplanev1.APIEndpoint{
		Host: cmp.Or(s.input.Exposure.Address, s.input.Addresses[names.Object(s.key.Name, names.KubeAPIServer)]), Port: s.input.Network.APIServerPort,
	})
	return flow.Done()
}

// otherAddresses finds Services that somebody made with another address than the one recorded. Only a person
// can take them away; all else goes on by the addresses that are recorded.
func otherAddresses(recorded map[string]string, present map[string]*corev1.Service) (misplaced map[string]bool, problem error) {
	misplaced = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		if address := present[name].Spec.ClusterIP; recorded[name] != "" && address != recorded[name] {
			misplaced[name] = true
			problem = errors.Join(problem, fmt.Errorf("address %s of Service %s is not %s, which certificates and etcd members name: delete the Service, and it is made again with that",
				address, client.ObjectKeyFromObject(present[name]), recorded[name]))
		}
	}
	return misplaced, problem
}

// patchedServices are the Services of a component as patches want them. While a patch is refused, which
// only a person can resolve, those that there are stay as they are, and missing ones come back without it.
func patchedServices(component components.Component, in *components.Input, services []*corev1.Service, present map[string]*corev1.Service) (wanted []client.Object, kept []*corev1.Service) {
	for _, service := range services {
		wanted = append(wanted, service)
	}
	patched, err := component.Patched(in, wanted)
	if err == nil {
		return patched, nil
	}
	wanted = nil
	for _, service := range services {
		if live := present[service.Name]; live != nil {
			kept = append(kept, live)
		} else {
			wanted = append(wanted, service)
		}
	}
	return wanted, kept
}

// recordedAddresses are those that were given before: of every Service, and by the one of API servers.
func recordedAddresses(ctx context.Context, s *scope) (map[string]string, components.Exposure, error) {
	objects, err := s.revisions.Newest(ctx, s.key, names.Services)
	if err != nil {
		return nil, components.Exposure{}, err
	}
	addresses, exposed := map[string]string{}, components.Exposure{}
	for _, object := range objects {
		if service, ok := object.(*corev1.Service); ok {
			addresses[service.Name] = service.Spec.ClusterIP
			exposed = cmp.Or(exposed, readExposure(service))
		}
	}
	return addresses, exposed, nil
}

func presentServices(ctx context.Context, s *scope) (map[string]*corev1.Service, error) {
	list := &corev1.ServiceList{}
	if err := s.host.Client.List(ctx, list, client.InNamespace(s.key.Namespace), client.MatchingLabels(names.Labels(s.key))); err != nil {
		return nil, fmt.Errorf("list the Services of cluster %s: %w", s.key, err)
	}
	present := map[string]*corev1.Service{}
	for i := range list.Items {
		present[list.Items[i].Name] = &list.Items[i]
	}
	return present, nil
}

func recordAddresses(ctx context.Context, s *scope) error {
	hash := sha256.New()
	sorted := slices.Sorted(maps.Keys(s.input.Addresses))
	for _, name := range sorted {
		fmt.Fprintf(hash, "%s=%s\n", name, s.input.Addresses[name])
	}
	if exposed := s.input.Exposure; exposed != (components.Exposure{}) {
		fmt.Fprintf(hash, "%+v\n", exposed)
	}
	_, err := s.revisions.Rendering(ctx, s.key, names.Services, hex.EncodeToString(hash.Sum(nil)[:8]), time.Time{}, func() ([]client.Object, error) {
		var services []client.Object
		for _, name := range sorted {
			service := &corev1.Service{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.ServiceSpec{ClusterIP: s.input.Addresses[name]},
			}
			if name == names.Object(s.key.Name, names.KubeAPIServer) {
				writeExposure(service, s.input.Exposure)
			}
			services = append(services, service)
		}
		return services, nil
	})
	return err
}
