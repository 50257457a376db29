package patches

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// instead are the fields of spec that say what a patch of a component must not.
type instead struct{ replicas, image, args, storage string }

var insteadOf = map[string]instead{
	names.EtcdData: {
		replicas: "set spec.etcd.data.replicas", image: "set spec.etcd.image",
		args: "each member reads a configuration file that the controller writes", storage: "set spec.etcd.data.storage",
	},
	names.EtcdEvents: {
		replicas: "set spec.etcd.events.replicas", image: "set spec.etcd.image",
		args: "each member reads a configuration file that the controller writes", storage: "set spec.etcd.events.storage",
	},
	names.KubeAPIServer: {
		replicas: "set spec.replicas, with spec.kubeAPIServer.workload Deployment", image: "set spec.kubeAPIServer.image", args: "set spec.kubeAPIServer.extraArgs",
	},
	names.KubeControllerManager: {
		replicas: "set spec.kubeControllerManager.replicas",
		image:    "set spec.kubeControllerManager.image", args: "set spec.kubeControllerManager.extraArgs",
	},
	names.KubeScheduler: {
		replicas: "set spec.kubeScheduler.replicas",
		image:    "set spec.kubeScheduler.image", args: "set spec.kubeScheduler.extraArgs",
	},
}

func isHosted(component string) bool {
	_, hosted := insteadOf[component]
	return hosted
}

// hostRules say what a patch may change of a component's objects in the host cluster, by kind. They list
// every kind that the component can have, except Secrets.
func hostRules(component string) map[string]rule {
	fields := insteadOf[component]
	switch component {
	case names.EtcdData, names.EtcdEvents:
		return map[string]rule{
			"StatefulSet":         workload(fields),
			"PodDisruptionBudget": budget(false),
			"NetworkPolicy":       networkPolicy,
			"Service":             object(nil),
			"ConfigMap":           configMap("the controller writes each member's configuration, remove it from the patch"),
		}
	case names.KubeAPIServer:
		return map[string]rule{
			"DaemonSet":           workload(fields),
			"Deployment":          workload(fields),
			"PodDisruptionBudget": budget(true),
			"NetworkPolicy":       networkPolicy,
			"Service":             object(nil),
			"ConfigMap":           configMap("set spec.kubeAPIServer.jwt, spec.kubeAPIServer.audit or spec.addons.konnectivity"),
		}
	default:
		return map[string]rule{
			"Deployment":          workload(fields),
			"PodDisruptionBudget": budget(true),
			"NetworkPolicy":       networkPolicy,
		}
	}
}

// object allows new labels and annotations, and changes of further fields by their rules.
func object(further map[string]rule) rule {
	fields := map[string]rule{
		"metadata": only(map[string]rule{"labels": marks, "annotations": marks}),
	}
	for field, rule := range further {
		fields[field] = rule
	}
	return only(fields)
}

// configMap allows new files; those that are rendered stay.
func configMap(instead string) rule {
	return object(map[string]rule{"data": added(instead), "binaryData": added(instead)})
}

// budget allows fewer or more evictions at once, but never of etcd: of three members one may be away.
func budget(number bool) rule {
	spec := map[string]rule{"unhealthyPodEvictionPolicy": free}
	if !number {
		return object(map[string]rule{"spec": only(spec)})
	}
	spec["minAvailable"], spec["maxUnavailable"] = free, free
	return object(map[string]rule{"spec": oneNumber(only(spec))})
}

// oneNumber refuses what the API server would only refuse when it is applied: a budget with both numbers.
func oneNumber(fields rule) rule {
	return func(path string, rendered, patched any, report report) {
		fields(path, rendered, patched, report)
		if after := asMap(patched); after["minAvailable"] != nil && after["maxUnavailable"] != nil {
			report(path+".minAvailable", "cannot be set together with "+path+".maxUnavailable, which is rendered: set maxUnavailable: null beside it")
		}
	}
}

// networkPolicy allows to let in more, such as what collects metrics, never less: a control plane's parts must
// reach each other.
var networkPolicy = object(map[string]rule{"spec": only(map[string]rule{"ingress": appended("the parts of the control plane need what is rendered; " +
	"add to it with a JSON6902 patch whose path ends in /ingress/-")})})

const (
	podByPod  = "the controller rolls out pod by pod, so that enough of them serve at any time"
	blockOnly = "every port is the controller's to choose; those of a host node are of the tenant's block, set spec.hosting.ports"
	probed    = "only the numbers of a probe can be patched"
)

func workload(fields instead) rule {
	return object(map[string]rule{"spec": only(map[string]rule{
		"minReadySeconds":         free,
		"progressDeadlineSeconds": free,
		"revisionHistoryLimit":    free,
		"template":                only(map[string]rule{"metadata": only(map[string]rule{"labels": marks, "annotations": marks}), "spec": pod(fields)}),

		"replicas":             kept(fields.replicas),
		"strategy":             kept(podByPod),
		"updateStrategy":       kept(podByPod),
		"volumeClaimTemplates": kept(fields.storage),
	})})
}

// pod lists what a person may decide of pods; what is not here, such as the host's namespaces, service
// account tokens and what a pod needs to stop in order, is the controller's.
func pod(fields instead) rule {
	return only(map[string]rule{
		"affinity":                  free,
		"dnsConfig":                 free,
		"dnsPolicy":                 free,
		"hostAliases":               free,
		"imagePullSecrets":          free,
		"preemptionPolicy":          free,
		"priorityClassName":         free,
		"runtimeClassName":          free,
		"schedulerName":             free,
		"topologySpreadConstraints": free,

		"nodeSelector":    added("set spec.hosting.nodeSelector"),
		"securityContext": added("pods run without privileges, remove it from the patch"),
		"tolerations": appended("a strategic merge patch replaces the list; add to it with a JSON6902 patch whose path ends in " +
			"/tolerations/-, or for all components with spec.hosting.tolerations"),

		"containers":     each("name", container(fields)),
		"initContainers": each("name", container(instead{image: "set spec.addons.konnectivity.serverImage", args: "they belong to the controller"})),
		"volumes":        each("name", kept("add a volume of another name, or set extraVolumes of the component")),
	})
}

// container is a container that is rendered, not one that a patch adds.
func container(fields instead) rule {
	probe := only(map[string]rule{
		"failureThreshold": free, "initialDelaySeconds": free, "periodSeconds": free, "successThreshold": free, "timeoutSeconds": free,
		"httpGet": kept(probed),
	})
	return only(map[string]rule{
		"envFrom":         free,
		"imagePullPolicy": free,
		"resources":       free,

		"env":             each("name", kept("add a variable of another name")),
		"securityContext": added("containers run without privileges, remove it from the patch"),
		"volumeMounts":    each("mountPath", kept("mount at another path")),
		"livenessProbe":   probe,
		"readinessProbe":  probe,
		"startupProbe":    probe,

		"args":    kept(fields.args),
		"command": kept(fields.args),
		"image":   kept(fields.image),
		"ports":   kept(blockOnly),
	})
}
