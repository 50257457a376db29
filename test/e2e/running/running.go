// Package running tells what runs of a tenant, and what of it was replaced or restarted between two looks at it.
package running

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Pod identifies what runs: a pod that was replaced has another UID, one whose container ended more restarts.
type Pod struct {
	UID      types.UID
	Restarts int32
	Node     string
	// Component is that of a control plane; empty for other pods.
	Component string
}

// Of is what runs, by the names of pods.
func Of(pods []corev1.Pod) map[string]Pod {
	all := map[string]Pod{}
	for _, pod := range pods {
		one := Pod{UID: pod.UID, Node: pod.Spec.NodeName, Component: pod.Labels[names.ComponentLabel]}
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			one.Restarts += container.RestartCount
		}
		all[pod.Name] = one
	}
	return all
}

// Rolled says which components did not just get more pods, or fewer: of those that ran before, fewer run on without a
// restart than there were then, and than there are now. Names tell nothing: a pod of a Deployment or DaemonSet that was
// replaced has another one. Components that may roll are not looked at.
//
// Between the two looks the number of pods may grow or shrink, not both: of pods that come and go again, the host cluster
// may keep the new ones.
func Rolled(before, after map[string]Pod, mayRoll ...string) []string {
	was, is := byComponent(before), byComponent(after)
	var rolled []string
	for _, component := range slices.Sorted(maps.Keys(was)) {
		if slices.Contains(mayRoll, component) {
			continue
		}
		var lost []string
		for uid, one := range was[component] {
			switch now, there := is[component][uid]; {
			case !there:
				lost = append(lost, one.name+" is gone")
			case now.Restarts != one.Restarts:
				lost = append(lost, fmt.Sprintf("%s was restarted %d times", one.name, now.Restarts-one.Restarts))
			}
		}
		stayed, should := len(was[component])-len(lost), min(len(was[component]), len(is[component]))
		if stayed < should {
			slices.Sort(lost)
			rolled = append(rolled, fmt.Sprintf("%s: of %d pods that ran before %d run on, not %d: %s",
				component, len(was[component]), stayed, should, strings.Join(lost, ", ")))
		}
	}
	return rolled
}

// Undrained says which pods are others than before, or restarted, that a drain of one node does not explain: it replaces pods
// of that node alone, and none of the components that stay there. With no node none may be.
func Undrained(before, after map[string]Pod, node string, stay ...string) []string {
	now, former := byUID(after), byUID(before)
	var undrained []string
	for name, was := range before {
		switch is, there := now[was.UID]; {
		case !there && (was.Node != node || slices.Contains(stay, was.Component)):
			undrained = append(undrained, fmt.Sprintf("%s on %s is gone", name, was.Node))
		case there && is.Restarts != was.Restarts:
			undrained = append(undrained, fmt.Sprintf("%s on %s was restarted %d times", name, was.Node, is.Restarts-was.Restarts))
		}
	}
	for name, is := range after {
		if _, there := former[is.UID]; !there && is.Restarts > 0 {
			undrained = append(undrained, fmt.Sprintf("%s on %s is new and was restarted %d times", name, is.Node, is.Restarts))
		}
	}
	slices.Sort(undrained)
	return undrained
}

func byUID(pods map[string]Pod) map[types.UID]Pod {
	all := map[types.UID]Pod{}
	for _, pod := range pods {
		all[pod.UID] = pod
	}
	return all
}

type named struct {
	Pod
	name string
}

func byComponent(pods map[string]Pod) map[string]map[types.UID]named {
	components := map[string]map[types.UID]named{}
	for name, pod := range pods {
		if components[pod.Component] == nil {
			components[pod.Component] = map[types.UID]named{}
		}
		components[pod.Component][pod.UID] = named{pod, name}
	}
	return components
}
