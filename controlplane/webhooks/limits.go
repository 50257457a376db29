package webhooks

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// Limits bound what users may ask for in a control plane. Flags of the manager set them. A control
// plane's pods are on the network of host nodes, where no Pod Security level bounds them.
type Limits struct {
	// HostPorts is the range of the host ports of control planes, pinned or not.
	HostPorts ports.Span
	// HostNodes are the labels that every node selector must contain; none of them allows every node.
	HostNodes map[string]string
	// AnyToleration allows to tolerate every taint, and those of the host cluster's own control plane.
	AnyToleration bool
	// ImageRepositories are the registries and paths that images may come from; none of them allows
	// every one.
	ImageRepositories []string
}

// DefaultLimits are the limits of a manager without flags.
func DefaultLimits() Limits {
	return Limits{HostPorts: ports.DefaultRange, HostNodes: map[string]string{controlplanev1.HostNodeLabel: "true"}}
}

// ParseHostNodes reads labels like "a=b,c=d".
func ParseHostNodes(text string) (map[string]string, error) {
	nodes, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, fmt.Errorf("%q is no list of labels like %s=true: %w", text, controlplanev1.HostNodeLabel, err)
	}
	return nodes, nil
}

// AnyImageRepository allows every registry; clusterctl knows no variable whose default is empty.
const AnyImageRepository = "*"

// ParseImageRepositories reads registries with an optional path, and spells them out as images are. None,
// and AnyImageRepository alone, stand for all.
func ParseImageRepositories(list []string) ([]string, error) {
	if len(list) == 1 && list[0] == AnyImageRepository {
		return nil, nil
	}
	repositories := make([]string, 0, len(list))
	for _, repository := range list {
		if errs := validateImageRepository(repository, nil); repository == "" || len(errs) > 0 {
			return nil, fmt.Errorf("%q is no registry with an optional path, for example registry.k8s.io", repository)
		}
		// With a folder below, docker.io is all of that registry and not only its library.
		repositories = append(repositories, strings.TrimSuffix(spelledOut(repository+"/any"), "/any"))
	}
	return repositories, nil
}

func (l Limits) validatePorts(block controlplanev1.PortBlock, path *field.Path) field.ErrorList {
	if block.First == 0 || l.HostPorts.Contains(ports.Block(block.First)) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("first"), block.First,
		fmt.Sprintf("ports %s are not in %s, the range of control planes (--host-port-range of the manager); choose a block in it, or leave ports out to get a free one",
			ports.Block(block.First), l.HostPorts))}
}

func (l Limits) validate(spec *controlplanev1.KOKControlPlaneSpec, path *field.Path) field.ErrorList {
	errs := l.validateNodeSelector(spec.Hosting.NodeSelector, path.Child("hosting", "nodeSelector"))
	errs = append(errs, l.validateTolerations(spec.Hosting.Tolerations, spec.Hosting.PortPool, path.Child("hosting", "tolerations"))...)
	if spec.ImageRepository != "" {
		errs = append(errs, l.validateRepository(spelledOut(spec.ImageRepository), spec.ImageRepository, path.Child("imageRepository"))...)
	}
	for _, component := range registry.Components.WithSettings() {
		errs = append(errs, l.validateImage(component.Settings.Spec(spec).Image, path.Child(component.Settings.Field, "image"))...)
	}
	errs = append(errs, l.validateImage(spec.Etcd.Image, path.Child("etcd", "image"))...)
	// Images of the other addons run in the tenant, where the tenant decides on them.
	return append(errs, l.validateImage(spec.Addons.Konnectivity.ServerImage, path.Child("addons", "konnectivity", "serverImage"))...)
}

// validateImage judges an image that runs in the host cluster. One that is malformed is refused elsewhere.
func (l Limits) validateImage(image string, path *field.Path) field.ErrorList {
	named, err := reference.ParseNormalizedNamed(image)
	if image == "" || err != nil {
		return nil
	}
	return l.validateRepository(named.Name(), image, path)
}

// validateNodeSelector accepts an unset selector: it is one of a template, and what is made of it has
// the default.
func (l Limits) validateNodeSelector(selector map[string]string, path *field.Path) field.ErrorList {
	for key, value := range l.HostNodes {
		if got, ok := selector[key]; selector != nil && (!ok || got != value) {
			return field.ErrorList{field.Invalid(path, selector,
				fmt.Sprintf("must contain %s, the label of nodes that may carry control planes (--host-node-selector of the manager)", labels.Set(l.HostNodes)))}
		}
	}
	return nil
}

// controlPlaneTaint keeps pods away from the host cluster's own control plane.
const controlPlaneTaint = "node-role.kubernetes.io/control-plane"

// validateTolerations lets only pods that a port pool's label binds to its host nodes tolerate the taint of these: on them others
// could take the ports of the pool's control planes.
func (l Limits) validateTolerations(tolerations []corev1.Toleration, pool string, path *field.Path) field.ErrorList {
	if l.AnyToleration {
		return nil
	}
	var errs field.ErrorList
	for i, toleration := range tolerations {
		switch {
		case toleration.Key == "" && toleration.Operator == corev1.TolerationOpExists:
			errs = append(errs, field.Invalid(path.Index(i).Child("key"), toleration.Key,
				"must be set: without it every taint is tolerated, which the manager allows with --allow-any-toleration only; name the taint"))
		case toleration.Key == controlPlaneTaint:
			errs = append(errs, field.Invalid(path.Index(i).Child("key"), toleration.Key,
				"is the taint of the host cluster's own control plane, which the manager allows to tolerate with --allow-any-toleration only; remove it"))
		case toleration.Key == controlplanev1.PortPoolLabel && (toleration.Operator == corev1.TolerationOpExists || pool == "" || toleration.Value != pool):
			errs = append(errs, field.Invalid(path.Index(i).Child("key"), toleration.Key,
				"is the taint of the host nodes of a port pool, which only control planes of that pool tolerate; remove it, or make the control plane with hosting.portPool"))
		}
	}
	return errs
}

// validateRepository compares a repository that is spelled out; value is what a person wrote.
func (l Limits) validateRepository(repository, value string, path *field.Path) field.ErrorList {
	if len(l.ImageRepositories) == 0 {
		return nil
	}
	for _, allowed := range l.ImageRepositories {
		if repository == allowed || strings.HasPrefix(repository, allowed+"/") {
			return nil
		}
	}
	return field.ErrorList{field.Invalid(path, value,
		fmt.Sprintf("must be in %s (--allowed-image-repositories of the manager)", strings.Join(l.ImageRepositories, " or ")))}
}

// spelledOut is a repository with its registry, as in the names of images; what is malformed stays.
func spelledOut(repository string) string {
	named, err := reference.ParseNormalizedNamed(repository + "/name")
	if err != nil {
		return repository
	}
	return strings.TrimSuffix(named.Name(), "/name")
}
