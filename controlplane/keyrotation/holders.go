package keyrotation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
)

// holders are the workloads and pods of components that have keys, by component, as the API server of the host cluster has them. A workload
// that does not exist is not in the map. A component that this tenant does not have is absent, such as the etcd of events where events are in
// the data.
type holders struct {
	workloads map[string]client.Object
	absent    map[string]bool
	pods      map[string][]corev1.Pod
}

func readHolders(ctx context.Context, of *Facts) (*holders, error) {
	pods, err := hostpods.List(ctx, of.Host.Live, of.Cluster)
	if err != nil {
		return nil, err
	}
	seen := &holders{workloads: map[string]client.Object{}, absent: map[string]bool{}, pods: pods}
	kinds := workloads.Kinds(of.ControlPlane)
	for i := range rotatingKinds {
		for _, component := range registry.Components.Holding(rotatingKinds[i].pods).Names() {
			workload, at := kinds[component], client.ObjectKey{Namespace: of.Cluster.Namespace, Name: names.Object(of.Cluster.Name, component)}
			if seen.absent[component] = workload == nil; workload == nil || seen.workloads[component] != nil {
				continue
			}
			switch err := of.Host.Live.Get(ctx, at, workload); {
			case err == nil:
				seen.workloads[component] = workload
			case !apierrors.IsNotFound(err):
				return nil, fmt.Errorf("read the workload of %s: %w", component, err)
			}
		}
	}
	return seen, nil
}

// behind are workloads and pods that do not have the keys of the present phase. A pod that stops serves until it has
// stopped.
func (h *holders) behind(in *components.Input, kind *rotatingKind) []string {
	var behind []string
	for _, component := range registry.Components.Holding(kind.pods) {
		workload := h.workloads[component.Name]
		if !h.absent[component.Name] && (workload == nil || !component.HasKeys(kind.pods, in, &patches.PodTemplate(workload).Spec) || !rolledOut(workload)) {
			behind = append(behind, component.Name)
		}
		for i := range h.pods[component.Name] {
			if pod := &h.pods[component.Name][i]; !hostpods.Ended(pod) && !component.HasKeys(kind.pods, in, &pod.Spec) {
				behind = append(behind, "pod "+pod.Name)
			}
		}
	}
	return behind
}

// rolledOut reports whether all pods are of the workload's present template, and no pod of a former one can come. A Deployment scales
// former ReplicaSets to zero before it tells that all its pods are up to date and available (rolloutRolling of kube-controller-manager).
func rolledOut(workload client.Object) bool {
	return workloads.StateOf(workload).Complete()
}
