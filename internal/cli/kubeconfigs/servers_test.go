package kubeconfigs

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(host string, onHost bool, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{Spec: corev1.PodSpec{HostNetwork: onHost, Containers: []corev1.Container{{
		Ports: []corev1.ContainerPort{{Name: "agents", ContainerPort: 20010}, {Name: "https", ContainerPort: 20000}},
	}}}, Status: corev1.PodStatus{HostIP: host}}
	if change != nil {
		change(&p)
	}
	return p
}

func TestAPIServersAreFoundByTheirPods(t *testing.T) {
	service := func(kind corev1.ServiceType, node int32) []corev1.Service {
		return []corev1.Service{{Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Name: "agents", NodePort: 30001}, {Name: "https", NodePort: node}}}}}
	}
	for name, test := range map[string]struct {
		pods     []corev1.Pod
		services []corev1.Service
		want     []string
	}{
		"on the host network at their own port": {
			pods: []corev1.Pod{pod("192.0.2.2", true, nil), pod("192.0.2.1", true, nil), pod("2001:db8::1", true, nil)}, services: service(corev1.ServiceTypeClusterIP, 0),
			want: []string{"192.0.2.1:20000", "192.0.2.2:20000", "[2001:db8::1]:20000"},
		},
		"on the pod network at the node port, once for each node": {
			pods: []corev1.Pod{pod("192.0.2.1", false, nil), pod("192.0.2.1", false, nil)}, services: service(corev1.ServiceTypeNodePort, 30443), want: []string{"192.0.2.1:30443"},
		},
		"and not behind a load balancer, whose own node ports are nobody's": {pods: []corev1.Pod{pod("192.0.2.1", false, nil)}, services: service(corev1.ServiceTypeLoadBalancer, 30443)},
		"and not before they have a node":                                   {pods: []corev1.Pod{pod("", true, nil)}},
		"and not while they go":                                             {pods: []corev1.Pod{pod("192.0.2.1", true, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}},
		"and not once they have ended":                                      {pods: []corev1.Pod{pod("192.0.2.1", true, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := serversOn(test.pods, nodePort(test.services)); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
