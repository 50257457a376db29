package addresses

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Present lists the Services that a tenant has in the host cluster, by name.
func Present(ctx context.Context, host client.Reader, tenant client.ObjectKey) (map[string]*corev1.Service, error) {
	list := &corev1.ServiceList{}
	if err := host.List(ctx, list, client.InNamespace(tenant.Namespace), client.MatchingLabels(names.Labels(tenant))); err != nil {
		return nil, fmt.Errorf("list the Services of cluster %s: %w", tenant, err)
	}
	present := map[string]*corev1.Service{}
	for i := range list.Items {
		present[list.Items[i].Name] = &list.Items[i]
	}
	return present, nil
}

// Misplaced finds Services that somebody made with another address than the recorded one. Only a person can delete them. Everything else
// goes on with the recorded addresses.
func Misplaced(recorded map[string]string, present map[string]*corev1.Service) (misplaced map[string]bool, problem error) {
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

// Plan says what is done about the Services of all components.
type Plan struct {
	// Apply are the Services to apply. Each asks for its recorded address.
	Apply []client.Object
	// Known are the addresses of Services that stay as they are until a person acts, by name.
	Known map[string]string
}

// Decide renders the Services of all components with the addresses of the record. If a component cannot be rendered, the plan has the
// components before it.
func Decide(in components.Input, recorded Record, present map[string]*corev1.Service, misplaced map[string]bool) (Plan, error) {
	in.Addresses, in.Exposure = recorded.Services, recorded.Exposure
	plan := Plan{Known: map[string]string{}}
	for _, component := range registry.Components {
		if component.Services == nil {
			continue
		}
		services, err := component.Services(&in)
		if err != nil {
			return plan, err
		}
		wanted, kept := patched(component, &in, services, present)
		for _, service := range wanted {
			if misplaced[service.GetName()] {
				plan.Known[service.GetName()] = recorded.Services[service.GetName()]
			} else {
				plan.Apply = append(plan.Apply, service)
			}
		}
		for _, service := range kept {
			plan.Known[service.Name] = cmp.Or(recorded.Services[service.Name], service.Spec.ClusterIP)
		}
	}
	return plan, nil
}

// patched are the Services of a component after its patches. Only a person can mend a refused patch. Until then present Services stay as
// they are, and missing ones are made without the patch.
func patched(component components.Component, in *components.Input, services []*corev1.Service, present map[string]*corev1.Service) (wanted []client.Object, kept []*corev1.Service) {
	for _, service := range services {
		wanted = append(wanted, service)
	}
	if all, err := component.Patched(in, wanted); err == nil {
		return all, nil
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
