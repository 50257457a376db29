package kubeconfigs

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// portName is the port of API servers in their pods and their Service.
const portName = "https"

// serversOf lists the addresses of API servers on their nodes, host:port. The list is empty when the kubeconfig names one
// address for all of them, or when they run in another cluster.
func serversOf(ctx context.Context, reader client.Reader, cluster client.ObjectKey) ([]string, error) {
	of := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels(names.ComponentLabels(cluster, names.KubeAPIServer))}
	pods, services := &corev1.PodList{}, &corev1.ServiceList{}
	if err := reader.List(ctx, pods, of...); err != nil {
		return nil, fmt.Errorf("list the API servers' pods: %w", err)
	}
	if err := reader.List(ctx, services, of...); err != nil {
		return nil, fmt.Errorf("list the API servers' Services: %w", err)
	}
	return serversOn(pods.Items, nodePort(services.Items)), nil
}

// serversOn are the addresses of API servers in pods: at their own port on the host network, or at nodePort unless it is 0.
func serversOn(pods []corev1.Pod, nodePort int32) []string {
	var servers []string
	for _, pod := range pods {
		port := nodePort
		if pod.Spec.HostNetwork {
			port = hostPort(&pod)
		}
		ended := pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if pod.Status.HostIP != "" && port != 0 && !ended {
			servers = append(servers, net.JoinHostPort(pod.Status.HostIP, strconv.Itoa(int(port))))
		}
	}
	slices.Sort(servers)
	return slices.Compact(servers)
}

func hostPort(pod *corev1.Pod) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == portName {
				return port.ContainerPort
			}
		}
	}
	return 0
}

func nodePort(services []corev1.Service) int32 {
	for _, service := range services {
		for _, port := range service.Spec.Ports {
			if service.Spec.Type == corev1.ServiceTypeNodePort && port.Name == portName {
				return port.NodePort
			}
		}
	}
	return 0
}
