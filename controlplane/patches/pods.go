package patches

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// PodTemplate is the pod template of a workload, nil for other objects.
func PodTemplate(object client.Object) *corev1.PodTemplateSpec {
	switch workload := object.(type) {
	case *appsv1.StatefulSet:
		return &workload.Spec.Template
	case *appsv1.DaemonSet:
		return &workload.Spec.Template
	case *appsv1.Deployment:
		return &workload.Spec.Template
	}
	return nil
}

// finishPod confines what a patch added to the pods of a workload in the host cluster, and says what must
// not be added.
func finishPod(rendered, patched client.Object, allow Allow) []string {
	before, after := PodTemplate(rendered), PodTemplate(patched)
	if after == nil {
		return nil
	}
	ours := containerNames(before.Spec)
	isOurs := func(c corev1.Container) bool { return slices.Contains(ours, c.Name) }
	additions := Additions{Tolerations: after.Spec.Tolerations[len(before.Spec.Tolerations):]}
	for _, containers := range [][]corev1.Container{after.Spec.InitContainers, after.Spec.Containers} {
		for i := range containers {
			if !isOurs(containers[i]) {
				confine(&containers[i])
				additions.Containers = append(additions.Containers, containers[i])
			}
		}
	}
	// A strategic merge puts new elements first; the first container is the component's, for kubectl too.
	slices.SortStableFunc(after.Spec.Containers, func(a, b corev1.Container) int {
		return rank(isOurs(a)) - rank(isOurs(b))
	})

	problems := checkNames(after.Spec)
	problems = append(problems, checkVolumes(before.Spec, after.Spec)...)
	problems = append(problems, checkAddedContainers(before.Spec, additions.Containers)...)
	problems = append(problems, checkMounts(before.Spec, after.Spec)...)
	problems = append(problems, checkSecrets(after.Spec)...)
	problems = append(problems, checkUsers(after.Spec, usersOf(before.Spec)...)...)
	problems = append(problems, checkPrivileges(after)...)
	if allow != nil {
		problems = append(problems, allow(additions)...)
	}
	return problems
}

// checkNames keeps a container from passing for one of the component's.
func checkNames(pod corev1.PodSpec) []string {
	seen := map[string]bool{}
	for _, name := range containerNames(pod) {
		if seen[name] {
			return []string{fmt.Sprintf("two containers are named %s; choose another name", name)}
		}
		seen[name] = true
	}
	return nil
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

func containers(pod corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.InitContainers, pod.Containers)
}

func containerNames(pod corev1.PodSpec) []string {
	var all []string
	for _, container := range containers(pod) {
		all = append(all, container.Name)
	}
	return all
}

// confine gives an added container what all containers of components have, where it says nothing itself.
func confine(container *corev1.Container) {
	if container.SecurityContext == nil {
		container.SecurityContext = &corev1.SecurityContext{}
	}
	security := container.SecurityContext
	if security.AllowPrivilegeEscalation == nil {
		security.AllowPrivilegeEscalation = ptr.To(false)
	}
	if security.ReadOnlyRootFilesystem == nil {
		security.ReadOnlyRootFilesystem = ptr.To(true)
	}
	if security.Capabilities == nil {
		security.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
	if container.TerminationMessagePolicy == "" {
		container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
}

func volumeNames(pod corev1.PodSpec) map[string]corev1.Volume {
	volumes := map[string]corev1.Volume{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = volume
	}
	return volumes
}

// checkVolumes refuses new volumes that reach beyond a pod: files of the host, data of others, tokens.
func checkVolumes(before, after corev1.PodSpec) []string {
	var problems []string
	ours := volumeNames(before)
	for _, volume := range after.Volumes {
		if _, ok := ours[volume.Name]; ok {
			continue
		}
		at := fmt.Sprintf("spec.template.spec.volumes[%s]", volume.Name)
		switch {
		case strings.HasPrefix(volume.Name, "kok-"):
			problems = append(problems, at+" cannot be added: names with the prefix kok- belong to the controller, choose another")
		case volume.EmptyDir != nil && isUnlimited(volume.EmptyDir):
			problems = append(problems, at+".emptyDir.sizeLimit must be set: without it one control plane could fill a host node's disk")
		case !isHarmless(volume.VolumeSource):
			problems = append(problems, at+" cannot be added: a volume must be a configMap, secret, emptyDir, downwardAPI, or projected of configMap, secret and downwardAPI")
		}
	}
	return problems
}

func isUnlimited(directory *corev1.EmptyDirVolumeSource) bool {
	limit := ptr.Deref(directory.SizeLimit, resource.Quantity{})
	return limit.Sign() <= 0
}

func isHarmless(source corev1.VolumeSource) bool {
	if source.Projected == nil {
		return source.ConfigMap != nil || source.Secret != nil || source.EmptyDir != nil || source.DownwardAPI != nil
	}
	return !slices.ContainsFunc(source.Projected.Sources, func(s corev1.VolumeProjection) bool {
		return s.ConfigMap == nil && s.Secret == nil && s.DownwardAPI == nil
	})
}

func checkAddedContainers(before corev1.PodSpec, added []corev1.Container) []string {
	var problems []string
	ours := volumeNames(before)
	for _, container := range added {
		at := fmt.Sprintf("container %s", container.Name)
		if len(container.Ports) > 0 {
			problems = append(problems, at+" cannot declare ports: "+blockOnly+"; let it listen on loopback or on a socket in an emptyDir")
		}
		if !ptr.Deref(container.SecurityContext.ReadOnlyRootFilesystem, false) {
			problems = append(problems, at+" must have a read-only root file system: mount an emptyDir with a sizeLimit where it writes")
		}
		for _, mount := range container.VolumeMounts {
			if volume, ok := ours[mount.Name]; slices.Contains(closedVolumes, mount.Name) || ok && volume.ConfigMap == nil && volume.EmptyDir == nil {
				problems = append(problems, fmt.Sprintf("%s cannot mount %s, which holds keys or data of the tenant", at, mount.Name))
			}
		}
	}
	return problems
}

const (
	// dataVolume is where an etcd member keeps its data.
	dataVolume = names.DataVolume
	// snapshotsVolume is the volume of the claim that has snapshots of etcd.
	snapshotsVolume = "kok-snapshots"
)

// closedVolumes may be scratch of the pod, and are not for containers that a patch adds: data of a member, those that a
// trial of a snapshot has, and the program that takes snapshots.
var closedVolumes = []string{dataVolume, names.SnapshotsVolume, "kok-trial", "kok-program"}

// checkMounts keeps what the component's containers read where it is.
func checkMounts(before, after corev1.PodSpec) []string {
	var problems []string
	ours := map[string][]corev1.VolumeMount{}
	for _, container := range containers(before) {
		ours[container.Name] = container.VolumeMounts
	}
	for _, container := range containers(after) {
		for _, mount := range container.VolumeMounts {
			for _, own := range ours[container.Name] {
				if mount.MountPath != own.MountPath && nested(mount.MountPath, own.MountPath) {
					problems = append(problems, fmt.Sprintf("container %s cannot mount %s at %s: %s is mounted at %s, choose another path",
						container.Name, mount.Name, mount.MountPath, own.Name, own.MountPath))
				}
			}
		}
	}
	return problems
}

// nested says whether one of two directories is in the other.
func nested(a, b string) bool {
	a, b = path.Clean(a)+"/", path.Clean(b)+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// checkSecrets refuses Secrets with keys of tenants: a namespace holds those of several.
func checkSecrets(pod corev1.PodSpec) []string {
	var problems []string
	refuse := func(where, secret string) {
		if ending, holds := names.HoldsKeys(secret); holds {
			problems = append(problems, fmt.Sprintf("%s cannot use Secret %s: Secrets whose names end in %s hold keys of tenants; use a Secret of another name", where, secret, ending))
		}
	}
	for _, volume := range pod.Volumes {
		if strings.HasPrefix(volume.Name, "kok-") {
			continue
		}
		at := "volume " + volume.Name
		if volume.Secret != nil {
			refuse(at, volume.Secret.SecretName)
		}
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				if source.Secret != nil {
					refuse(at, source.Secret.Name)
				}
			}
		}
	}
	for _, container := range containers(pod) {
		at := "container " + container.Name
		for _, source := range container.EnvFrom {
			if source.SecretRef != nil {
				refuse(at, source.SecretRef.Name)
			}
		}
		for _, variable := range container.Env {
			if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
				refuse(at, variable.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
	return problems
}

// restricted is Kubernetes' Pod Security Standard of that name. It allows what the host network needs:
// its ports, and probes of loopback.
var restricted = sync.OnceValue(func() policy.Evaluator {
	exempt := []policy.CheckID{policy.CheckHostNamespaces().ID, policy.CheckHostPorts().ID, policy.CheckHostProbesAndHostLifecycle().ID}
	checks := slices.DeleteFunc(policy.DefaultChecks(), func(c policy.Check) bool { return slices.Contains(exempt, c.ID) })
	evaluator, err := policy.NewEvaluator(checks, nil)
	if err != nil {
		panic(fmt.Sprintf("the checks of the Pod Security Standards: %v", err))
	}
	return evaluator
})

// checkPrivileges holds pods to the restricted Pod Security Standard
// (https://kubernetes.io/docs/concepts/security/pod-security-standards): the namespace's own level
// cannot, as it must allow the host's network.
func checkPrivileges(template *corev1.PodTemplateSpec) []string {
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	result := policy.AggregateCheckResults(restricted().EvaluatePod(level, &template.ObjectMeta, &template.Spec))
	if result.Allowed {
		return nil
	}
	return []string{"pods must meet the Pod Security Standard restricted: " + result.ForbiddenDetail()}
}
