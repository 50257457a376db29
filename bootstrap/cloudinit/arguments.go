package cloudinit

import (
	"regexp"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/arguments"
)

var argNames = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

const (
	credentials  = "the controller sets how kubelet gets its certificates and where it keeps them"
	access       = "the controller sets who may use kubelet's API"
	clusterDNS   = "it follows from clusterNetwork of the Cluster"
	runtime      = "containerd is the container runtime"
	exits        = "the program would print and exit"
	registration = "a node must register itself to join"
)

// ownedArgs are kubelet's arguments that connect it to its cluster, and those for which there is a field.
var ownedArgs = arguments.Owned{
	"anonymous-auth":             access,
	"authentication-*":           access,
	"authorization-*":            access,
	"bootstrap-kubeconfig":       credentials,
	"cert-dir":                   credentials,
	"client-ca-file":             access,
	"cluster-dns":                clusterDNS,
	"cluster-domain":             clusterDNS,
	"config":                     "use kubelet.configuration",
	"config-dir":                 "use kubelet.configuration",
	"container-runtime-endpoint": runtime,
	"fail-cgroupv1":              "kubelet runs with both versions of cgroups",
	"help":                       exits,
	"image-service-endpoint":     runtime,
	"kubeconfig":                 credentials,
	"node-labels":                "use kubelet.nodeLabels",
	"pod-infra-container-image":  "containerd's configuration names the image, and kubelet knows no such argument from v1.35 on",
	"register-node":              registration,
	"register-with-taints":       "use kubelet.taints",
	"root-dir":                   credentials,
	"rotate-certificates":        credentials,
	"rotate-server-certificates": credentials,
	"tls-cert-file":              credentials,
	"tls-private-key-file":       credentials,
	"version":                    exits,

	"cgroup-driver":           "use kubelet.configuration.cgroupDriver",
	"container-log-max-files": "use kubelet.configuration.containerLogMaxFiles",
	"container-log-max-size":  "use kubelet.configuration.containerLogMaxSize",
	"cpu-manager-policy":      "use kubelet.configuration.cpuManagerPolicy",
	"eviction-hard":           "use kubelet.configuration.evictionHard",
	"fail-swap-on":            "use kubelet.configuration.failSwapOn",
	"feature-gates":           "use kubelet.configuration.featureGates",
	"image-gc-high-threshold": "use kubelet.configuration.imageGCHighThresholdPercent",
	"image-gc-low-threshold":  "use kubelet.configuration.imageGCLowThresholdPercent",
	"kube-reserved":           "use kubelet.configuration.kubeReserved",
	"max-pods":                "use kubelet.configuration.maxPods",
	"oom-score-adj":           "use kubelet.configuration.oomScoreAdj",
	"pod-max-pids":            "use kubelet.configuration.podPidsLimit",
	"resolv-conf":             "use kubelet.configuration.resolvConf",
	"serialize-image-pulls":   "use kubelet.configuration.serializeImagePulls",
	"system-reserved":         "use kubelet.configuration.systemReserved",
	"topology-manager-policy": "use kubelet.configuration.topologyManagerPolicy",
}

// OwnedArg says whether an argument of kubelet belongs to the controller, and why or what to set in its
// place.
func OwnedArg(name string) (reason string, owned bool) {
	return ownedArgs.Reason(name)
}
