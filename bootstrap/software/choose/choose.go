// Package choose decides what a machine gets: the variant of each component, and the order. It changes nothing.
package choose

import (
	"fmt"
	"slices"
	"strings"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software/facts"
)

// Choice is a component with the variant for this machine.
type Choice struct {
	Component bootstrapv1.SoftwareComponent
	Variant   bootstrapv1.SoftwareVariant
}

// Choose returns the components in the order in which they are installed.
func Choose(document software.Document, machine facts.Facts) ([]Choice, error) {
	ordered, err := order(document.Components)
	if err != nil {
		return nil, err
	}
	machine.Version = document.Version
	choices := make([]Choice, 0, len(ordered))
	for _, c := range ordered {
		variant, err := variantFor(c, machine, document.Name)
		if err != nil {
			return nil, err
		}
		choices = append(choices, Choice{Component: c, Variant: variant})
	}
	return choices, nil
}

// variantFor is the first variant that matches. A component without variants has only files or a unit.
func variantFor(c bootstrapv1.SoftwareComponent, machine facts.Facts, name string) (bootstrapv1.SoftwareVariant, error) {
	if len(c.Variants) == 0 {
		return bootstrapv1.SoftwareVariant{}, nil
	}
	described := make([]string, 0, len(c.Variants))
	for _, v := range c.Variants {
		if matches(v.Match, machine) {
			return v, nil
		}
		described = append(described, describe(v.Match))
	}
	return bootstrapv1.SoftwareVariant{}, software.Problemf(software.NoVariant, c.Name,
		"this machine is %s, and there are variants only for %s. Use a machine that one of them is for, or make another KOKSoftware than %s with a variant for this one",
		machine, strings.Join(slices.Compact(described), "; "), name)
}

func matches(match bootstrapv1.SoftwareMatch, machine facts.Facts) bool {
	return (len(match.OS) == 0 || slices.Contains(match.OS, machine.OS)) &&
		(len(match.OSVersions) == 0 || slices.Contains(match.OSVersions, machine.OSVersion)) &&
		(len(match.Architectures) == 0 || slices.Contains(match.Architectures, bootstrapv1.Architecture(machine.Architecture))) &&
		(match.Version == "" || match.Version == machine.Version)
}

// describe writes a match for people.
func describe(match bootstrapv1.SoftwareMatch) string {
	words := "any distribution"
	if len(match.OS) > 0 {
		words = strings.Join(match.OS, " or ")
	}
	if len(match.OSVersions) > 0 {
		words += " " + strings.Join(match.OSVersions, " or ")
	}
	if len(match.Architectures) > 0 {
		architectures := make([]string, 0, len(match.Architectures))
		for _, a := range match.Architectures {
			architectures = append(architectures, string(a))
		}
		words += " on " + strings.Join(architectures, " or ")
	}
	if match.Version != "" {
		words += " with Kubernetes " + match.Version
	}
	return words
}

// order puts each component after those that it names, and otherwise keeps the document's order.
func order(components []bootstrapv1.SoftwareComponent) ([]bootstrapv1.SoftwareComponent, error) {
	byName := map[string]bootstrapv1.SoftwareComponent{}
	for _, c := range components {
		byName[c.Name] = c
	}
	const visiting, done = 1, 2
	state := map[string]int{}
	var ordered []bootstrapv1.SoftwareComponent
	var visit func(c bootstrapv1.SoftwareComponent, path []string) error
	visit = func(c bootstrapv1.SoftwareComponent, path []string) error {
		path = append(slices.Clone(path), c.Name)
		switch state[c.Name] {
		case done:
			return nil
		case visiting:
			circle := path[slices.Index(path, c.Name):]
			return software.Problemf(software.NotInstalled, c.Name, "after: the components come after each other in a circle: %s", strings.Join(circle, " after "))
		}
		state[c.Name] = visiting
		for _, name := range c.After {
			before, known := byName[name]
			if !known {
				return software.Problemf(software.NotInstalled, c.Name, "after: there is no component %s", name)
			}
			if err := visit(before, path); err != nil {
				return err
			}
		}
		state[c.Name] = done
		ordered = append(ordered, c)
		return nil
	}
	for _, c := range components {
		if err := visit(c, nil); err != nil {
			return nil, fmt.Errorf("order the components: %w", err)
		}
	}
	return ordered, nil
}
