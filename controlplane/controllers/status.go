package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// observation is what status and conditions are computed from. It is gathered once; everything
// after it is pure.
type observation struct {
	// workloads by component; nil for one that does not exist.
	workloads map[string]*workloadState
	// pods by component.
	pods map[string][]corev1.Pod
	// etcd is what the operator reports of both clusters, by component; nil for one that it does not look after yet.
	etcd map[string]*operator.Report
	// creationFailures say why pods of a component are not created, by component.
	creationFailures map[string]string
	// lostNodes are host nodes that the host cluster does not hear from.
	lostNodes []string
}

// lost reports whether a pod is where the host cluster hears nothing from: it may well be running.
func (seen *observation) lost(pod *corev1.Pod) bool {
	return slices.Contains(seen.lostNodes, pod.Spec.NodeName)
}

// health is what an etcd cluster says of itself; nil for one that was not observed.
func (seen *observation) health(component string) *etcd.Health {
	if report := seen.etcd[component]; report != nil {
		return report.Health
	}
	return nil
}

// lostPods is the number of pods of a component that may well be running.
func (seen *observation) lostPods(component string) int32 {
	var count int32
	for i := range seen.pods[component] {
		if pod := &seen.pods[component][i]; seen.lost(pod) && !hostpods.Ready(pod) && !hostpods.Ended(pod) {
			count++
		}
	}
	return count
}

// mayHave reports whether a component has a number of working pods if those that are lost work.
func (seen *observation) mayHave(component string, pods int32) bool {
	state, lost := seen.workloads[component], seen.lostPods(component)
	return state != nil && lost > 0 && state.ready+lost >= pods
}

func (r *Reconciler) observe(ctx context.Context, s *scope) (*observation, error) {
	seen := &observation{workloads: map[string]*workloadState{}, pods: s.snapshot.Pods, etcd: map[string]*operator.Report{}}
	workloads, err := workloadsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	for component, workload := range workloads {
		seen.workloads[component] = s.stateOf(component, workload)
	}
	if seen.creationFailures, err = creationFailures(ctx, s, workloads, r.Clock.Now()); err != nil {
		return nil, err
	}
	cordoned, err := cordonedMembers(ctx, s.host.Client, seen.pods)
	if err != nil {
		return nil, err
	}
	seen.etcd = r.operateEtcd(s, seen.workloads, cordoned)
	seen.lostNodes, err = lostNodes(ctx, s, seen.pods)
	return seen, err
}

// workloadsOf are the workloads of components that exist, as the steps left them or, where a step
// did not run, as the cache has them.
func workloadsOf(ctx context.Context, s *scope) (map[string]client.Object, error) {
	workloads := maps.Clone(s.live)
	for component, workload := range workloadKinds(s.controlPlane) {
		if workloads[component] != nil {
			continue
		}
		key := client.ObjectKey{Namespace: s.key.Namespace, Name: names.Object(s.key.Name, component)}
		switch err := s.host.Client.Get(ctx, key, workload); {
		case err == nil:
			workloads[component] = workload
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read the workload of %s: %w", component, err)
		}
	}
	return workloads, nil
}

// workloadKinds are empty objects of the kinds of components' workloads, by component.
func workloadKinds(controlPlane *controlplanev1.KOKControlPlane) map[string]client.Object {
	kinds := map[string]client.Object{}
	for _, component := range registry.Components {
		kinds[component.Name] = component.Workload(&controlPlane.Spec)
	}
	return kinds
}

// lostNodes are the nodes of unready pods that the host cluster does not hear from: their pods may
// well be running.
func lostNodes(ctx context.Context, s *scope, pods map[string][]corev1.Pod) ([]string, error) {
	suspects := map[string]bool{}
	for _, ofComponent := range pods {
		for i := range ofComponent {
			if !hostpods.Ready(&ofComponent[i]) && ofComponent[i].Spec.NodeName != "" && ofComponent[i].Status.StartTime != nil {
				suspects[ofComponent[i].Spec.NodeName] = true
			}
		}
	}
	if !ptr.Deref(s.controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return nil, nil
	}
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(suspects)) {
		// The cache does not hold the conditions of Nodes.
		away, err := hostpods.NodeIsLost(ctx, s.host.Live, name)
		if err != nil {
			return nil, err
		}
		if away {
			lost = append(lost, name)
		}
	}
	return lost, nil
}

// updateStatus sets the whole status from what was observed.
func updateStatus(s *scope, seen *observation) {
	status := &s.controlPlane.Status
	status.ExternalManagedControlPlane = ptr.To(true)
	setReplicas(s, seen)
	setEtcd(s, seen)
	setVersions(s.controlPlane, seen.pods)
	if s.outcome(stepTenantObjects).Done() {
		status.Initialization.ControlPlaneInitialized = ptr.To(true)
	}
	setConditions(s, seen)
}

func setReplicas(s *scope, seen *observation) {
	status := &s.controlPlane.Status
	status.Selector = labels.SelectorFromSet(names.ComponentLabels(s.key, names.KubeAPIServer)).String()
	state := seen.workloads[names.KubeAPIServer]
	if state == nil {
		state = &workloadState{}
	}
	status.DesiredReplicas = ptr.To(state.desired)
	status.Replicas = ptr.To(state.current)
	status.ReadyReplicas = ptr.To(state.ready)
	status.AvailableReplicas = ptr.To(state.available)
	status.UpToDateReplicas = ptr.To(state.updated)
}

func setEtcd(s *scope, seen *observation) {
	status := &s.controlPlane.Status
	var clusters []controlplanev1.EtcdClusterStatus
	var summary []string
	for _, component := range etcdComponents {
		wanted := *etcdSpec(s.controlPlane, component).Replicas
		state := seen.workloads[component]
		if state == nil {
			state = &workloadState{}
		}
		clusters = append(clusters, controlplanev1.EtcdClusterStatus{
			Name:          etcdName(component),
			Replicas:      ptr.To(wanted),
			ReadyReplicas: ptr.To(state.ready),
			Bootstrapped:  ptr.To(bootstrapped(s.controlPlane, component) || joined(seen.health(component))),
			Members:       listedMembers(seen.health(component), etcdStatus(s.controlPlane, component).Members),
		})
		summary = append(summary, fmt.Sprintf("%d/%d", state.ready, wanted))
	}
	status.Etcd = clusters
	status.EtcdHealth = strings.Join(summary, " ")
}

// joined reports whether every member that there should be is one, by what etcd itself says.
func joined(health *etcd.Health) bool {
	return health != nil && health.Err == nil && len(health.Members) > 0 && len(health.Problems()) == 0
}

func etcdSpec(controlPlane *controlplanev1.KOKControlPlane, component string) controlplanev1.EtcdClusterSpec {
	if component == names.EtcdData {
		return controlPlane.Spec.Etcd.Data
	}
	return controlPlane.Spec.Etcd.Events
}

// setVersions lists every version that a pod of a Kubernetes component still runs, with the number
// of API servers at it, from older to newer. Without such a pod what was seen last stays.
func setVersions(controlPlane *controlplanev1.KOKControlPlane, pods map[string][]corev1.Pod) {
	apiServers := map[string]int32{}
	for _, component := range registry.Components.Kubernetes() {
		for i := range pods[component] {
			version := versionOf(&pods[component][i])
			if version == "" {
				continue
			}
			count := apiServers[version]
			if component == names.KubeAPIServer {
				count++
			}
			apiServers[version] = count
		}
	}
	if len(apiServers) == 0 {
		return
	}
	controlPlane.Status.Versions = nil
	for _, version := range slices.SortedFunc(maps.Keys(apiServers), versions.Compare) {
		controlPlane.Status.Versions = append(controlPlane.Status.Versions,
			clusterv1.StatusVersion{Version: version, Replicas: apiServers[version]})
	}
}
