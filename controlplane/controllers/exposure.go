package controllers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// expose learns where API servers on the pod network are reached. It is given once and kept, as cluster
// IPs are: certificates, kubeconfigs and workers name it. Waiting says what the host cluster must still give.
func (s *scope) expose(service *corev1.Service, before components.Exposure) (waiting string) {
	if !s.input.OnPodNetwork() {
		return ""
	}
	exposed, waiting := kubeapiserver.Exposed(&s.input, service)
	if before != (components.Exposure{}) {
		if waiting == "" && exposed != before {
			s.note(fmt.Errorf("the Service %s is reached at %s now, but certificates, kubeconfigs and workers name %s: make the host cluster give it that again",
				service.Name, describe(exposed), describe(before)))
		}
		exposed, waiting = before, ""
	}
	if waiting == "" {
		s.input.Exposure, s.input.Ports = exposed, ports.OnPodNetwork(exposed.Port)
	}
	return waiting
}

func describe(exposed components.Exposure) string {
	if exposed.Address == "" {
		return fmt.Sprintf("port %d of host nodes", exposed.Port)
	}
	return fmt.Sprintf("port %d of %s", exposed.Port, exposed.Address)
}

// writeExposure keeps an exposure in the record of a Service, readExposure reads it.
func writeExposure(service *corev1.Service, exposed components.Exposure) {
	if exposed == (components.Exposure{}) {
		return
	}
	service.Spec.Ports = []corev1.ServicePort{{Port: exposed.Port}}
	if exposed.Address != "" {
		service.Spec.ExternalIPs = []string{exposed.Address}
	}
}

func readExposure(service *corev1.Service) components.Exposure {
	var exposed components.Exposure
	for _, port := range service.Spec.Ports {
		exposed.Port = port.Port
	}
	for _, address := range service.Spec.ExternalIPs {
		exposed.Address = address
	}
	return exposed
}
