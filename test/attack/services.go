package attack

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// service makes a Service without pods.
func (a *Attacker) service(ctx context.Context, edit func(*corev1.Service)) (*corev1.Service, error) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: a.name("service")}}
	edit(service)
	if err := a.Client.Create(ctx, service); err != nil {
		return nil, fmt.Errorf("make a Service: %w", err)
	}
	return service, nil
}

func at(port uint16) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Name: "p", Port: int32(port)}} }
}

func external(name string, port uint16) func(*corev1.Service) {
	return func(s *corev1.Service) {
		at(port)(s)
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, name
	}
}

// leading makes a Service that leads to an address.
func (a *Attacker) leading(ctx context.Context, to netip.AddrPort) (*corev1.Service, error) {
	service, err := a.service(ctx, at(to.Port()))
	if err != nil {
		return nil, err
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name, Labels: map[string]string{discoveryv1.LabelServiceName: service.Name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("p"), Port: ptr.To(int32(to.Port()))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{to.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}
	if err := a.Client.Create(ctx, slice); err != nil {
		a.remove(ctx, service)
		return nil, fmt.Errorf("make an EndpointSlice: %w", err)
	}
	return service, nil
}

func (a *Attacker) askService(ctx context.Context, protocol string, service *corev1.Service) (string, error) {
	path := fmt.Sprintf("%s:%s:%d", protocol, service.Name, service.Spec.Ports[0].Port)
	return a.eventually(ctx, func(ctx context.Context) (string, error) {
		return a.get(ctx, "/api/v1/namespaces", service.Namespace, "services", path, "proxy", "canary")
	})
}

// serviceProxy is the proxy of a Service: it goes to addresses of Endpoints that are said to be a pod's, and to which the pod
// says so, too.
func serviceProxy(protocol string) func(context.Context, *Attacker, netip.AddrPort) (string, error) {
	return func(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
		pod, remove, err := a.nowhere(ctx, to)
		if err != nil {
			return "", err
		}
		defer remove()
		service, err := a.service(ctx, at(to.Port()))
		if err != nil {
			return "", err
		}
		defer a.remove(ctx, service)
		//nolint:staticcheck // It is what the proxy goes by.
		endpoints := &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name},
			Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{
					IP: to.Addr().String(), TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name},
				}},
				Ports: []corev1.EndpointPort{{Name: "p", Port: int32(to.Port())}},
			}},
		}
		if err := a.Client.Create(ctx, endpoints); err != nil {
			return "", fmt.Errorf("make Endpoints: %w", err)
		}
		return a.askService(ctx, protocol, service)
	}
}

func podProxy(ctx context.Context, a *Attacker, to netip.AddrPort) (string, error) {
	pod, remove, err := a.nowhere(ctx, to)
	if err != nil {
		return "", err
	}
	defer remove()
	return a.get(ctx, "/api/v1/namespaces", pod.Namespace, "pods", fmt.Sprintf("%s:%d", pod.Name, to.Port()), "proxy", "canary")
}
