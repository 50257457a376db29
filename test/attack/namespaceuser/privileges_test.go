//go:build attack

package namespaceuser

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// template is that of the pods of a workload.
type template struct {
	workload string
	// tenant is the name of the Cluster.
	tenant string
	meta   metav1.ObjectMeta
	spec   corev1.PodSpec
}

// templates are those of all that runs, or would run, in a namespace.
func templates(t *testing.T, namespace string) []template {
	t.Helper()
	var all []template
	add := func(object client.Object, pods corev1.PodTemplateSpec) {
		all = append(all, template{fmt.Sprintf("%T %s", object, object.GetName()), object.GetLabels()[names.ClusterNameLabel], pods.ObjectMeta, pods.Spec})
	}
	sets, daemons, deployments, pods := &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{sets, daemons, deployments, pods} {
		if err := management.client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sets.Items {
		add(&sets.Items[i], sets.Items[i].Spec.Template)
	}
	for i := range daemons.Items {
		add(&daemons.Items[i], daemons.Items[i].Spec.Template)
	}
	for i := range deployments.Items {
		add(&deployments.Items[i], deployments.Items[i].Spec.Template)
	}
	for i := range pods.Items {
		add(&pods.Items[i], corev1.PodTemplateSpec{ObjectMeta: pods.Items[i].ObjectMeta, Spec: pods.Items[i].Spec})
	}
	return all
}

// privileges is what pods in the attacker's namespace have that no pod of theirs may have.
func (a *attacker) privileges(t *testing.T) []string {
	t.Helper()
	planes := &controlplanev1.KOKControlPlaneList{}
	if err := management.client.List(t.Context(), planes, client.InNamespace(a.namespace)); err != nil {
		t.Fatal(err)
	}
	first := map[string]int32{}
	for _, plane := range planes.Items {
		first[plane.Labels[names.ClusterNameLabel]] = plane.Spec.Hosting.Ports.First
	}
	var found []string
	for _, pods := range templates(t, a.namespace) {
		for _, problem := range slices.Concat(unrestricted(pods), placement(pods.spec), tokens(pods.spec), ports(pods.spec, first[pods.tenant]), users(pods.spec), a.keys(pods)) {
			found = append(found, pods.workload+" "+problem)
		}
	}
	return found
}

// unrestricted is what the Pod Security Standard restricted forbids, but for the network of the host.
func unrestricted(pods template) []string {
	exempt := []policy.CheckID{policy.CheckHostNamespaces().ID, policy.CheckHostPorts().ID, policy.CheckHostProbesAndHostLifecycle().ID}
	checks := slices.DeleteFunc(policy.DefaultChecks(), func(c policy.Check) bool { return slices.Contains(exempt, c.ID) })
	evaluator, err := policy.NewEvaluator(checks, nil)
	if err != nil {
		return []string{err.Error()}
	}
	level := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pods.meta, &pods.spec))
	if result.Allowed && !pods.spec.HostPID && !pods.spec.HostIPC {
		return nil
	}
	return []string{"is not restricted: " + result.ForbiddenDetail()}
}

func placement(pod corev1.PodSpec) []string {
	var found []string
	if pod.NodeSelector[controlplanev1.HostNodeLabel] != "true" || pod.NodeName != "" {
		found = append(found, "may run on nodes that are no host nodes")
	}
	for _, toleration := range pod.Tolerations {
		if toleration.Key == "" || toleration.Key == "node-role.kubernetes.io/control-plane" {
			found = append(found, "tolerates the host cluster's own control plane")
		}
	}
	return found
}

func tokens(pod corev1.PodSpec) []string {
	var found []string
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" && pod.ServiceAccountName != "default" {
		found = append(found, "has the token of a service account")
	}
	for _, volume := range pod.Volumes {
		if volume.Projected != nil && slices.ContainsFunc(volume.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }) {
			found = append(found, "mounts a token in "+volume.Name)
		}
	}
	return found
}

func containers(pod corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.InitContainers, pod.Containers)
}

// ports are those of the host that are not in the tenant's block.
func ports(pod corev1.PodSpec, first int32) []string {
	var found []string
	for _, container := range containers(pod) {
		for _, port := range container.Ports {
			if port.HostPort != 0 && (first == 0 || port.HostPort < first || port.HostPort >= first+controlplanev1.PortBlockSize) {
				found = append(found, fmt.Sprintf("has the host port %d, and its block begins with %d", port.HostPort, first))
			}
		}
	}
	return found
}

// users are those of the victim's tenants.
func users(pod corev1.PodSpec) []string {
	var ids []int64
	add := func(id *int64) {
		if id != nil {
			ids = append(ids, *id)
		}
	}
	if security := pod.SecurityContext; security != nil {
		add(security.RunAsUser)
		add(security.RunAsGroup)
		add(security.FSGroup)
		ids = append(ids, security.SupplementalGroups...)
	}
	for _, container := range containers(pod) {
		if security := container.SecurityContext; security != nil {
			add(security.RunAsUser)
			add(security.RunAsGroup)
		}
	}
	if slices.ContainsFunc(ids, func(id int64) bool { return slices.Contains(victims.users, id) }) {
		return []string{fmt.Sprintf("runs as a user of the victim: %v", ids)}
	}
	return nil
}

// keys are Secrets of another tenant in the same namespace that pods mount or read.
func (a *attacker) keys(pods template) []string {
	var secrets, found []string
	for _, volume := range pods.spec.Volumes {
		if volume.Secret != nil {
			secrets = append(secrets, volume.Secret.SecretName)
		}
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				if source.Secret != nil {
					secrets = append(secrets, source.Secret.Name)
				}
			}
		}
	}
	for _, container := range containers(pods.spec) {
		for _, source := range container.EnvFrom {
			if source.SecretRef != nil {
				secrets = append(secrets, source.SecretRef.Name)
			}
		}
		for _, variable := range container.Env {
			if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
				secrets = append(secrets, variable.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
	for _, secret := range secrets {
		if a.isNeighbours(secret) && !strings.HasPrefix(secret, pods.tenant+"-") {
			found = append(found, "reads "+secret+", which is another tenant's")
		}
	}
	return found
}
