package patches

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// Error is a patch that cannot be applied. Only a person can resolve it.
type Error struct {
	// Index is the patch's place in spec.patches.
	Index int
	// Target is what it is for.
	Target controlplanev1.PatchTarget
	// Problem says what is wrong with it and what would be right.
	Problem string
}

// Error names the patch as people find it in the spec.
func (e *Error) Error() string {
	return fmt.Sprintf("spec.patches[%d]: %s", e.Index, e.Details())
}

// Details are the error without its place.
func (e *Error) Details() string {
	return fmt.Sprintf("%s of %s: %s", e.Target.Kind, e.Target.Component, e.Problem)
}

// IsRefused reports whether an error is about a patch.
func IsRefused(err error) bool {
	var refused *Error
	return errors.As(err, &refused)
}

// Additions are what a patch adds to the pods of a component, or all that a stored rendering has.
type Additions struct {
	Containers  []corev1.Container
	Tolerations []corev1.Toleration
	// NodeSelector is nil where only additions are judged: a patch leaves the selector that is there.
	NodeSelector map[string]string
}

// Allow says what is wrong with additions, where not everybody may add everything; nil allows all.
type Allow func(Additions) []string

// Target is a component or an addon, whose objects patches may change.
type Target struct {
	// Name is what patches call it.
	Name string
	// Hosted is there for a component in the host cluster.
	Hosted *Hosted
	// Image says, of an addon, what a person sets instead of patching an image.
	Image string
}

// Apply gives a component's objects as patches want them: those of patches that are for the component,
// one after the other. The objects that it is given stay as they are. Objects are all of the component,
// or a part: a patch for a kind that is not among them, and which the component can have, is passed over.
// The error is an *Error.
func Apply(target Target, objects []client.Object, patches []controlplanev1.Patch, allow Allow) ([]client.Object, error) {
	patched := slices.Clone(objects)
	rules := target.rules(objects)
	for i, patch := range patches {
		if patch.Target.Component != target.Name {
			continue
		}
		refuse := func(problem string) error {
			// Libraries break lines; conditions and webhooks have one.
			return &Error{Index: i, Target: patch.Target, Problem: strings.Join(strings.Fields(problem), " ")}
		}
		rule, ok := rules[patch.Target.Kind]
		if !ok {
			return nil, refuse(unknownKind(patch.Target, rules))
		}
		for j, object := range patched {
			if object.GetObjectKind().GroupVersionKind().Kind != patch.Target.Kind {
				continue
			}
			result, err := applyOne(patch, target, objects[j], object, rule, allow)
			if err != nil {
				return nil, refuse(err.Error())
			}
			patched[j] = result
		}
	}
	return patched, nil
}

func unknownKind(target controlplanev1.PatchTarget, rules map[string]rule) string {
	problem := fmt.Sprintf("%s has no %s", target.Component, target.Kind)
	if target.Kind == "Secret" {
		problem = "Secrets hold keys and certificates and cannot be patched"
	}
	return fmt.Sprintf("%s; set target.kind to one of %s", problem, strings.Join(slices.Sorted(maps.Keys(rules)), ", "))
}

// applyOne applies a patch to an object, which earlier patches made of the rendered one.
func applyOne(patch controlplanev1.Patch, target Target, rendered, object client.Object, rule rule, allow Allow) (client.Object, error) {
	before, err := toFields(rendered)
	if err != nil {
		return nil, err
	}
	merged, err := merge(patch, object)
	if err != nil {
		return nil, err
	}
	after, err := readFields(merged)
	if err != nil {
		return nil, err
	}
	var problems []string
	rule("", before, after, func(path, problem string) { problems = append(problems, path+" "+problem) })
	if len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "; "))
	}
	result, err := decode(merged)
	if err != nil {
		return nil, err
	}
	if target.Hosted != nil {
		problems = finishPod(rendered, result, allow)
	}
	if len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "; "))
	}
	return result, nil
}
