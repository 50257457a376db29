package components

import (
	"slices"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

// List are components in the order in which they are applied and told of.
type List []Component

// Names are the names of all.
func (l List) Names() []string {
	return l.namesOf(func(Component) bool { return true })
}

// Of are those that a control plane has.
func (l List) Of(spec *controlplanev1.KOKControlPlaneSpec) List {
	return slices.DeleteFunc(slices.Clone(l), func(c Component) bool { return !c.IsOf(spec) })
}

// Kubernetes are the names of those whose version is spec.version.
func (l List) Kubernetes() []string {
	return l.namesOf(func(c Component) bool { return c.Kubernetes })
}

// ServingAPI are the names of those that serve the tenant's API.
func (l List) ServingAPI() []string {
	return l.namesOf(func(c Component) bool { return c.ServesAPI })
}

// Holding are those whose pods have keys of a kind.
func (l List) Holding(kind *KeyKind) List {
	return slices.DeleteFunc(slices.Clone(l), func(c Component) bool {
		_, holds := c.Keys.of(kind)
		return !holds
	})
}

// OfCondition are the names of those that a condition tells of.
func (l List) OfCondition(condition string) []string {
	return l.namesOf(func(c Component) bool { return c.Condition == condition })
}

// Named is the component of a name, if there is one.
func (l List) Named(name string) (component Component, found bool) {
	i := slices.IndexFunc(l, func(c Component) bool { return c.Name == name })
	if i < 0 {
		return Component{}, false
	}
	return l[i], true
}

func (l List) namesOf(is func(Component) bool) []string {
	var names []string
	for _, component := range l {
		if is(component) {
			names = append(names, component.Name)
		}
	}
	return names
}

// TakesAgain reports whether a component takes a former rendering again. A member of etcd does not: what it has on its volume may be of
// a newer etcd.
func (l List) TakesAgain(name string) bool {
	component, found := l.Named(name)
	return found && component.Condition != conditionsv1.EtcdClusterHealthyCondition
}

// WithSettings are those with a field of spec of their own.
func (l List) WithSettings() List {
	return slices.DeleteFunc(slices.Clone(l), func(c Component) bool { return c.Settings == nil })
}
