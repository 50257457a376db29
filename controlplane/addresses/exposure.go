package addresses

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
)

// Exposed tells where API servers on the pod network are reached. The host cluster gives that once, and it is kept as cluster IPs are,
// because certificates, kubeconfigs and workers name it. waiting says what the host cluster must still give. problem says that the host
// cluster now gives another exposure than the recorded one.
func Exposed(in *components.Input, service *corev1.Service, recorded components.Exposure) (exposed components.Exposure, waiting string, problem error) {
	exposed, waiting = kubeapiserver.Exposed(in, service, recorded)
	if recorded == (components.Exposure{}) {
		return exposed, waiting, nil
	}
	if waiting == "" && exposed != recorded {
		problem = fmt.Errorf("the Service %s is reached at %s now, but certificates, kubeconfigs and workers name %s: make the host cluster give it that again",
			service.Name, describe(exposed), describe(recorded))
	}
	return recorded, "", problem
}

func describe(exposed components.Exposure) string {
	if exposed.Address == "" {
		return fmt.Sprintf("port %d of host nodes", exposed.Port)
	}
	return fmt.Sprintf("port %d of %s", exposed.Port, exposed.Address)
}
