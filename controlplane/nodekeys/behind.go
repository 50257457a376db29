package nodekeys

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

const (
	// longest bounds a reason, which comes from the tenant, in bytes. lookedAt is how much is looked at of what the tenant says.
	longest  = 250
	lookedAt = 16 * longest
)

// Lag is a node of the tenant that does not have what is wanted yet.
type Lag struct {
	Node string
	// Why is the reason, in one line of 250 bytes at most.
	Why string
}

// String names the node, with the reason in parentheses.
func (l Lag) String() string { return fmt.Sprintf("%s (%s)", l.Node, l.Why) }

// Behind returns the nodes of the tenant that do not have what is wanted yet, in the order of their names. A node has it when a pod of the
// DaemonSet is ready there that was made for what is wanted. Behind fails when the tenant's API server does not answer, or lists what the
// guard refuses.
func Behind(ctx context.Context, guard *tenantapi.Guard, reader client.Reader, w Wanted) ([]Lag, error) {
	set := &appsv1.DaemonSet{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, set)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the tenant's DaemonSet %s: %w", name, err)
	}
	missing := "it has no pod of DaemonSet " + name + " yet, whose Events say why"
	if apierrors.IsNotFound(err) {
		missing = "DaemonSet " + name + " is not there"
	}
	reasons := map[string]string{}
	err = tenantapi.EachNamed(ctx, guard, reader, &corev1.PodList{}, "pods of DaemonSet "+name, func(object client.Object) {
		pod := object.(*corev1.Pod)
		if len(validation.IsDNS1123Subdomain(pod.Spec.NodeName)) > 0 {
			return // No Node has such a name, but an API server takes it in a Binding.
		}
		why, is := reasons[pod.Spec.NodeName]
		if !metav1.IsControlledBy(pod, set) || is && why == "" {
			return // It is somebody else's, or another one is ready there and this one ends.
		}
		reasons[pod.Spec.NodeName] = oneLine(reason(pod, w.hash()))
	}, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"k8s-app": name})
	if err != nil {
		return nil, err
	}
	var behind []Lag
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	err = tenantapi.EachNamed(ctx, guard, reader, nodes, "Nodes", func(node client.Object) {
		why, is := reasons[node.GetName()]
		switch os := node.GetLabels()[corev1.LabelOSStable]; {
		case is && why == "":
			return
		case is:
		case os != "linux":
			why = fmt.Sprintf("its label %s is %q: %s runs on Linux alone, and a person has to give this one its keys", corev1.LabelOSStable, oneLine(os), name)
		default:
			why = missing
		}
		behind = append(behind, Lag{node.GetName(), oneLine(why)})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(behind, func(a, b Lag) int { return cmp.Compare(a.Node, b.Node) })
	return behind, nil
}

// oneLine is a text from the tenant as a part of a line of a condition.
func oneLine(text string) string {
	return errortext.Short(strings.ToValidUTF8(strings.Join(strings.Fields(text[:min(len(text), lookedAt)]), " "), ""), longest)
}

// reason says why a pod does not tell that its node has what is wanted; empty when it does.
func reason(pod *corev1.Pod, hash string) string {
	switch {
	case pod.Annotations[hashAnnotation] != hash:
		return "its pod " + pod.Name + " is of another phase, and is being replaced"
	case pod.DeletionTimestamp != nil:
		return "its pod " + pod.Name + " ends, and is being replaced"
	case slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}):
		return ""
	}
	return fmt.Sprintf("pod %s: %s", pod.Name, cmp.Or(told(pod), "it is not ready yet"))
}

// told is what the pod's container ended with or waits for, or why the pod is in its phase. The end tells more than that it will
// start again.
func told(pod *corev1.Pod) string {
	for _, container := range pod.Status.ContainerStatuses {
		for _, state := range []corev1.ContainerState{container.State, container.LastTerminationState} {
			if end := state.Terminated; end != nil && end.Message != "" {
				return end.Message
			}
		}
		if waits := container.State.Waiting; waits != nil {
			return waits.Reason + ": " + waits.Message
		}
	}
	return cmp.Or(pod.Status.Message, pod.Status.Reason)
}
