package patches

// Hosted is what the description of a component says of patches: which objects in the host cluster they may have as
// their target, and which fields of spec they must leave to those who set them.
type Hosted struct {
	// Workloads are the kinds of workload that the component can have. Beside one is always a PodDisruptionBudget and a
	// NetworkPolicy, or can be.
	Workloads []string
	// Containers are the names of the containers that its pods can have by themselves.
	Containers []string
	// Services is true if the component has any.
	Services bool
	// Snapshots is true if its pods can have volumes with snapshots, and the Secret that says how snapshots are taken.
	Snapshots bool
	// Quorum is true if never more than one of its pods may be away.
	Quorum bool
	// Replicas, Image, Args, Storage and Config say what to do in place of a patch of the field or the ConfigMap of that name.
	// A component without Config has no ConfigMap. Beside says it of the images of init containers.
	Replicas, Image, Args, Storage, Config, Beside string
}

// rules say what a patch may change of a component's objects, by kind. They list every kind that the component can have,
// but for Secrets.
func (h *Hosted) rules() map[string]rule {
	rules := map[string]rule{"PodDisruptionBudget": budget(!h.Quorum), "NetworkPolicy": networkPolicy}
	for _, kind := range h.Workloads {
		rules[kind] = workload(h)
	}
	if h.Services {
		rules["Service"] = object(nil)
	}
	if h.Config != "" {
		rules["ConfigMap"] = configMap(h.Config)
	}
	return rules
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

func workload(fields *Hosted) rule {
	return object(map[string]rule{"spec": only(map[string]rule{
		"minReadySeconds":         free,
		"progressDeadlineSeconds": free,
		"revisionHistoryLimit":    free,
		"template":                only(map[string]rule{"metadata": only(map[string]rule{"labels": marks, "annotations": marks}), "spec": pod(fields)}),

		"replicas":             kept(fields.Replicas),
		"strategy":             kept(podByPod),
		"updateStrategy":       kept(podByPod),
		"volumeClaimTemplates": kept(fields.Storage),
	})})
}

// pod lists what a person may decide of pods; what is not here, such as the host's namespaces, service
// account tokens and what a pod needs to stop in order, is the controller's.
func pod(fields *Hosted) rule {
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
		"initContainers": each("name", container(&Hosted{Image: fields.Beside, Args: "they belong to the controller"})),
		"volumes":        each("name", kept("add a volume of another name, or set extraVolumes of the component")),
	})
}

// container is a container that is rendered, not one that a patch adds.
func container(fields *Hosted) rule {
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

		"args":    kept(fields.Args),
		"command": kept(fields.Args),
		"image":   kept(fields.Image),
		"ports":   kept(blockOnly),
	})
}
