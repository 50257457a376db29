package patches

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// Stored judges what is read from a stored rendering. Others than the manager may have written it, and older programs
// rendered in other ways. So it does not compare: it bounds how far the objects reach.
type Stored struct {
	// Cluster is the tenant that the rendering is of.
	Cluster client.ObjectKey
	// Component is the part of its control plane, and Hosted what its description says.
	Component string
	Hosted    Hosted
	// HostNetwork is true where pods may be on the network of their hosts.
	HostNetwork bool
	// FirstPort is the first port of the tenant's port block. User is the UID of its pods, where the tenant has one of its
	// own. Each is 0 while it is not known.
	FirstPort int32
	User      int64
	// PortPool is the port pool of the tenant; empty for none.
	PortPool string
	// Allow holds all containers, tolerations and the node selector to the manager's limits; nil allows all.
	Allow Allow
}

// Judge says what is wrong with objects, in words for people; nothing if they may be applied.
func (s Stored) Judge(objects []client.Object) []string {
	var problems []string
	seen := map[string]bool{}
	for _, object := range objects {
		at := fmt.Sprintf("%s %s", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
		found := s.judge(object)
		if seen[at] {
			found = append(found, "is there twice")
		}
		seen[at] = true
		for _, problem := range found {
			problems = append(problems, at+": "+problem)
		}
	}
	return problems
}

func (s Stored) judge(object client.Object) []string {
	problems := s.judgeIdentity(object)
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		problems = append(problems, s.judgeSelector("spec.selector", o.Spec.Selector)...)
		return append(append(problems, s.judgeClaims(o.Spec.VolumeClaimTemplates)...), s.judgePods(&o.Spec.Template)...)
	case *appsv1.DaemonSet:
		return append(append(problems, s.judgeSelector("spec.selector", o.Spec.Selector)...), s.judgePods(&o.Spec.Template)...)
	case *appsv1.Deployment:
		return append(append(problems, s.judgeSelector("spec.selector", o.Spec.Selector)...), s.judgePods(&o.Spec.Template)...)
	case *policyv1.PodDisruptionBudget:
		return append(problems, s.judgeSelector("spec.selector", o.Spec.Selector)...)
	case *networkingv1.NetworkPolicy:
		return append(problems, s.judgeSelector("spec.podSelector", &o.Spec.PodSelector)...)
	case *corev1.ConfigMap:
		return problems
	}
	return []string{fmt.Sprintf("%s has no such kind", s.Component)}
}

// Holds reports whether a component may have an object of that kind and name at all.
func (s Stored) Holds(kind metav1.TypeMeta, name string) bool {
	kinds := map[string]string{"StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1",
		"NetworkPolicy": "networking.k8s.io/v1", "ConfigMap": "v1"}
	return kinds[kind.Kind] == kind.APIVersion && kind.APIVersion != "" && name == s.name(kind.Kind)
}

func (s Stored) name(kind string) string {
	if kind == "ConfigMap" {
		return names.Config(s.Cluster.Name, s.Component)
	}
	return names.Object(s.Cluster.Name, s.Component)
}

func (s Stored) labels() map[string]string { return names.ComponentLabels(s.Cluster, s.Component) }

func (s Stored) judgeIdentity(object client.Object) []string {
	var problems []string
	if want := s.name(object.GetObjectKind().GroupVersionKind().Kind); object.GetName() != want {
		problems = append(problems, "metadata.name must be "+want)
	}
	if object.GetNamespace() != s.Cluster.Namespace {
		problems = append(problems, "metadata.namespace must be "+s.Cluster.Namespace)
	}
	if len(object.GetOwnerReferences()) > 0 || len(object.GetFinalizers()) > 0 {
		problems = append(problems, "metadata must have no owners and no finalizers")
	}
	problems = append(problems, judgeMarks("metadata.annotations", object.GetAnnotations(), nil)...)
	return append(problems, judgeMarks("metadata.labels", object.GetLabels(), s.labels())...)
}

// judgeMarks wants the given labels, and no others by which Cluster API and the controller find objects.
func judgeMarks(path string, marks, wanted map[string]string) []string {
	var problems []string
	for _, key := range sortedUnion(asAny(wanted), asAny(marks)) {
		value, isWanted := wanted[key]
		switch {
		case isWanted && marks[key] != value:
			problems = append(problems, fmt.Sprintf("%s[%s] must be %s", path, key, value))
		case !isWanted && isReserved(key):
			problems = append(problems, fmt.Sprintf("%s[%s] must not be there", path, key))
		}
	}
	return problems
}

func asAny(marks map[string]string) map[string]any {
	all := map[string]any{}
	for key, value := range marks {
		all[key] = value
	}
	return all
}

// judgeSelector wants the pods of the component, and no others.
func (s Stored) judgeSelector(path string, selector *metav1.LabelSelector) []string {
	if selector == nil || len(selector.MatchExpressions) > 0 || !maps.Equal(selector.MatchLabels, s.labels()) {
		return []string{path + " must be the labels of the component's own pods"}
	}
	return nil
}

// judgeClaims wants claims of new volumes: another's data can be had by its name, or as a copy.
func (s Stored) judgeClaims(claims []corev1.PersistentVolumeClaim) []string {
	var problems []string
	for _, claim := range claims {
		at := fmt.Sprintf("spec.volumeClaimTemplates[%s]", claim.Name)
		if claim.Name != dataVolume && (claim.Name != names.SnapshotsVolume || !s.Hosted.Snapshots) {
			problems = append(problems, at+" must be named "+dataVolume)
		}
		if from := claim.Spec; from.DataSource != nil || from.DataSourceRef != nil || from.VolumeName != "" || from.Selector != nil {
			problems = append(problems, at+" must claim a new volume")
		}
	}
	return problems
}

// podFields are what pods of components have, and what patches may add to them.
var podFields = []string{
	"affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases", "hostNetwork",
	"imagePullSecrets", "initContainers", "nodeSelector", "preemptionPolicy", "priorityClassName", "restartPolicy", "runtimeClassName",
	"schedulerName", "securityContext", "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints", "volumes",
}

func (s Stored) judgePods(template *corev1.PodTemplateSpec) []string {
	const path = "spec.template"
	pod := template.Spec
	problems := judgeMarks(path+".metadata.labels", template.Labels, s.labels())
	fields, err := toFields(&corev1.Pod{Spec: pod})
	if err != nil {
		return append(problems, err.Error())
	}
	for _, field := range slices.Sorted(maps.Keys(asMap(fields["spec"]))) {
		if !slices.Contains(podFields, field) {
			problems = append(problems, fmt.Sprintf("%s.spec.%s must not be set", path, field))
		}
	}
	if pod.HostNetwork && !s.HostNetwork {
		problems = append(problems, path+".spec.hostNetwork must not be true")
	}
	if ptr.Deref(pod.AutomountServiceAccountToken, true) {
		problems = append(problems, path+".spec.automountServiceAccountToken must be false")
	}
	if privileges := checkPrivileges(template); len(privileges) > 0 {
		return append(problems, privileges...)
	}
	if pool := pod.NodeSelector[controlplanev1.PortPoolLabel]; pool != s.PortPool {
		problems = append(problems, fmt.Sprintf("%s.spec.nodeSelector[%s] must be %q, the port pool of the tenant, and is %q",
			path, controlplanev1.PortPoolLabel, s.PortPool, pool))
	}
	problems = append(problems, s.judgePorts(pod)...)
	if s.User != 0 {
		problems = append(problems, checkUsers(pod, s.User)...)
	}
	problems = append(problems, s.judgeVolumes(pod)...)
	problems = append(problems, s.judgeContainers(pod)...)
	if s.Allow != nil {
		selector := map[string]string{}
		maps.Copy(selector, pod.NodeSelector)
		problems = append(problems, s.Allow(Additions{Containers: containers(pod), Tolerations: pod.Tolerations, NodeSelector: selector})...)
	}
	return problems
}

// judgePorts wants no port of the host from pods that are not on its network, and of others only those of the tenant's block:
// the scheduler keeps a pod away from where its ports are taken.
func (s Stored) judgePorts(pod corev1.PodSpec) []string {
	block := ports.Block(s.FirstPort)
	for _, container := range containers(pod) {
		for _, port := range container.Ports {
			outside := !block.Contains(ports.Span{First: port.ContainerPort, Last: port.ContainerPort})
			switch {
			case port.HostIP != "", port.HostPort != 0 && (!pod.HostNetwork || port.HostPort != port.ContainerPort):
				return []string{fmt.Sprintf("container %s must have no port of the host", container.Name)}
			case pod.HostNetwork && s.FirstPort != 0 && outside:
				return []string{fmt.Sprintf("container %s must have no port of the host but %s, the block of the tenant", container.Name, block)}
			}
		}
	}
	return nil
}

// judgeVolumes holds volumes with the controller's prefix to the Secrets and ConfigMaps of this component,
// and others to what a patch may add.
func (s Stored) judgeVolumes(pod corev1.PodSpec) []string {
	var problems []string
	own := corev1.PodSpec{}
	for _, volume := range pod.Volumes {
		if !isOwnVolume(volume) {
			continue
		}
		own.Volumes = append(own.Volumes, volume)
		if s.hasSnapshots(volume) {
			continue
		}
		if !isHarmless(volume.VolumeSource) || volume.EmptyDir != nil && isUnlimited(volume.EmptyDir) || !s.sourcesAreOwn(volume.VolumeSource) {
			problems = append(problems, fmt.Sprintf("spec.template.spec.volumes[%s] must be a Secret or ConfigMap of %s, or an emptyDir with a limit", volume.Name, s.Component))
		}
	}
	problems = append(problems, checkVolumes(own, pod)...)
	return append(problems, checkSecrets(pod)...)
}

// hasSnapshots reports whether a volume is that of a claim with snapshots of etcd, which spec names. It must not have the data
// of a member: spec cannot name that either.
func (s Stored) hasSnapshots(volume corev1.Volume) bool {
	claim := volume.PersistentVolumeClaim
	return s.Hosted.Snapshots && volume.Name == snapshotsVolume && claim != nil &&
		!names.HoldsData(claim.ClaimName) && !names.HoldsSnapshots(claim.ClaimName)
}

func isOwnVolume(volume corev1.Volume) bool { return strings.HasPrefix(volume.Name, "kok-") }

func (s Stored) sourcesAreOwn(source corev1.VolumeSource) bool {
	secret := func(name string) bool {
		return name == names.KeyMaterial(s.Cluster.Name) || name == names.Certs(s.Cluster.Name, s.Component) ||
			s.Hosted.Snapshots && name == names.Backup(s.Cluster.Name)
	}
	config := func(name string) bool { return name == names.Config(s.Cluster.Name, s.Component) }
	if source.Secret != nil && !secret(source.Secret.SecretName) || source.ConfigMap != nil && !config(source.ConfigMap.Name) {
		return false
	}
	if source.Projected == nil {
		return true
	}
	return !slices.ContainsFunc(source.Projected.Sources, func(p corev1.VolumeProjection) bool {
		return p.Secret != nil && !secret(p.Secret.Name) || p.ConfigMap != nil && !config(p.ConfigMap.Name)
	})
}

// judgeContainers judges containers beside the component's own as it would those of a patch.
func (s Stored) judgeContainers(pod corev1.PodSpec) []string {
	own := corev1.PodSpec{Volumes: slices.DeleteFunc(slices.Clone(pod.Volumes), func(v corev1.Volume) bool { return !isOwnVolume(v) })}
	added := slices.DeleteFunc(containers(pod), func(c corev1.Container) bool { return slices.Contains(s.Hosted.Containers, c.Name) })
	return append(checkNames(pod), checkAddedContainers(own, added)...)
}
