package adoption

import (
	"context"
	"fmt"
	"slices"

	"github.com/distribution/reference"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// Judge makes the store of renderings refuse what no program could have rendered for this control plane: who may
// write ControllerRevisions gets no more by them than who may write control planes.
func (a *Adopter) Judge(ctx context.Context, allow patches.Allow, table *versions.Table) {
	of := func(component string) patches.Stored {
		described, _ := registry.Components.Named(component)
		return patches.Stored{
			Cluster: a.Cluster, Component: component, Hosted: described.Patches, HostNetwork: !a.Input.OnPodNetwork(),
			FirstPort: a.ControlPlane.Spec.Hosting.Ports.First, User: a.ownUser(),
			PortPool: a.ControlPlane.Spec.Hosting.PortPool,
			Allow:    func(all patches.Additions) []string { return a.allowStored(ctx, component, all, allow, table) },
		}
	}
	a.Revisions.Judge = func(component string, objects []client.Object) []string {
		// What is stored of Services is their addresses; nobody applies it.
		if component == names.Services {
			return nil
		}
		return of(component).Judge(objects)
	}
	a.Revisions.Holds = func(component string, kind metav1.TypeMeta, name string) bool {
		if component == names.Services {
			return kind == metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
		}
		return of(component).Holds(kind, name)
	}
}

// ownUser is the user that a tenant has if it has one of its own; 0 while its ports are not known.
func (a *Adopter) ownUser() int64 {
	first := a.ControlPlane.Spec.Hosting.Ports.First
	if first == 0 && !a.Input.OnPodNetwork() {
		return 0
	}
	in := *a.Input
	in.Ports = ports.Of(first)
	return in.OwnUser()
}

// allowStored holds a stored rendering to the manager's limits. It leaves out what the present spec asks for, and what runs: both were within
// the limits when somebody wrote them, and the tenant keeps them when the limits become stricter. What runs differs from the present spec while
// a person changes the spec to fit stricter limits.
func (a *Adopter) allowStored(ctx context.Context, component string, all patches.Additions, allow patches.Allow, table *versions.Table) []string {
	if allow == nil || len(allow(all)) == 0 {
		return nil
	}
	running, err := a.runningPods(ctx, component)
	if err != nil {
		return []string{fmt.Sprintf("the manager's limits do not allow it, and it cannot be compared with what runs: %v", err)}
	}
	for _, pod := range []*corev1.PodSpec{a.presentPods(component, table), running} {
		if pod != nil {
			all = without(all, pod)
		}
	}
	return allow(all)
}

// without returns the additions that a pod does not have.
func without(all patches.Additions, pod *corev1.PodSpec) patches.Additions {
	var repositories []string
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		repositories = append(repositories, repositoryOf(container.Image))
	}
	all.Containers = slices.DeleteFunc(slices.Clone(all.Containers), func(c corev1.Container) bool {
		return slices.Contains(repositories, repositoryOf(c.Image))
	})
	all.Tolerations = slices.DeleteFunc(slices.Clone(all.Tolerations), func(t corev1.Toleration) bool {
		return slices.ContainsFunc(pod.Tolerations, func(own corev1.Toleration) bool { return equality.Semantic.DeepEqual(own, t) })
	})
	if labels.SelectorFromSet(pod.NodeSelector).Matches(labels.Set(all.NodeSelector)) {
		all.NodeSelector = nil
	}
	return all
}

// runningPods returns the pod spec of a component's workload in the host cluster; nil where that is not there.
func (a *Adopter) runningPods(ctx context.Context, component string) (*corev1.PodSpec, error) {
	key := client.ObjectKey{Namespace: a.Cluster.Namespace, Name: names.Object(a.Cluster.Name, component)}
	for _, workload := range []client.Object{&appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.Deployment{}} {
		switch err := a.Host.Client.Get(ctx, key, workload); {
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		case err == nil && names.Tenant(workload) == a.Cluster:
			return &patches.PodTemplate(workload).Spec, nil
		}
	}
	return nil, nil
}

// presentPods are the pods of a component as the present spec asks for them; nil where it cannot be rendered.
func (a *Adopter) presentPods(name string, table *versions.Table) *corev1.PodSpec {
	component, found := registry.Components.Named(name)
	in, _, err := rendering.Sample(a.ControlPlane.Spec, table)
	if !found || err != nil {
		return nil
	}
	in.EtcdAgentImage = a.Input.EtcdAgentImage
	objects, err := component.Rendered(in)
	if err != nil {
		return nil
	}
	for _, object := range objects {
		if template := patches.PodTemplate(object); template != nil {
			return &template.Spec
		}
	}
	return nil
}

// repositoryOf is an image without its tag and digest; what is malformed stays.
func repositoryOf(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	return named.Name()
}
