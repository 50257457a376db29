// Package status computes the status of a control plane: one pure function a condition, from how the steps of a reconcile
// ended and from what was observed. Nothing here reads or writes a cluster.
package status

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/backups"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/workloads"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// Input is what a reconcile knows beside what it observed.
type Input struct {
	// ControlPlane is the one whose status is set.
	ControlPlane *controlplanev1.KOKControlPlane
	Cluster      client.ObjectKey
	// OwnHost is true when the management cluster is the host cluster.
	OwnHost bool
	// Outcomes are how the steps ended, in their order.
	Outcomes []flow.Outcome
	// Problem is what would keep a control plane like this from being made.
	Problem error
	// Unsupported is why nothing can be rendered for the version, Refused why the patches cannot be applied.
	Unsupported, Refused error
	// Notes are what else only a person can put right.
	Notes []string
	// Rotations are how far rotations have come, of kinds that are asked for or under way.
	Rotations []Rotation
	// Restoring is what the founding anew of an etcd waits for, by component; empty for one that is not founded anew.
	Restoring map[string]string
}

// outcome is how a step ended.
func (in *Input) outcome(step string) flow.Outcome {
	for _, outcome := range in.Outcomes {
		if outcome.Name == step {
			return outcome
		}
	}
	return flow.Outcome{Name: step}
}

// ErrNotObserved is in the health of an etcd cluster that was not observed yet.
var ErrNotObserved = errors.New("it was not observed yet")

// Observation is what a reconcile observed of a control plane. Each field says from when it is.
type Observation struct {
	// Workloads are those of components, as the steps left them; nil for one that does not exist.
	Workloads map[string]*workloads.State
	// Pods are those of the control plane, by component, as the snapshot before the steps has them.
	Pods map[string][]corev1.Pod
	// Etcd is what the operator reported last of both clusters, by component; nil for one that it does not look after yet.
	Etcd map[string]*operator.Report
	// CreationFailures say why pods of a component are not created, by component.
	CreationFailures map[string]string
	// LostNodes are host nodes that the host cluster does not hear from.
	LostNodes []string
	// Backup is what is known of the backup of the data etcd, at Now.
	Backup backups.Seen
	Now    time.Time
}

// lost reports whether a pod is where the host cluster hears nothing from: it may well be running.
func (seen *Observation) lost(pod *corev1.Pod) bool {
	return slices.Contains(seen.LostNodes, pod.Spec.NodeName)
}

// Health is what an etcd cluster says of itself; nil for one that was not observed.
func (seen *Observation) Health(component string) *etcd.Health {
	if report := seen.Etcd[component]; report != nil {
		return report.Health
	}
	return nil
}

// lostPods is the number of pods of a component that may well be running.
func (seen *Observation) lostPods(component string) int32 {
	var count int32
	for i := range seen.Pods[component] {
		if pod := &seen.Pods[component][i]; seen.lost(pod) && !hostpods.Ready(pod) && !hostpods.Ended(pod) {
			count++
		}
	}
	return count
}

// mayHave reports whether a component has a number of working pods if those that are lost work.
func (seen *Observation) mayHave(component string, pods int32) bool {
	state, lost := seen.Workloads[component], seen.lostPods(component)
	return state != nil && lost > 0 && state.Ready+lost >= pods
}

// Set sets the whole status from what was observed.
func Set(in *Input, seen *Observation) {
	status := &in.ControlPlane.Status
	status.ExternalManagedControlPlane = ptr.To(true)
	setReplicas(in, seen)
	setEtcd(in, seen)
	SetVersions(in.ControlPlane, seen.Pods)
	if in.outcome(names.StepTenantObjects).Done() {
		status.Initialization.ControlPlaneInitialized = ptr.To(true)
	}
	setConditions(in, seen)
}

func setReplicas(in *Input, seen *Observation) {
	status := &in.ControlPlane.Status
	status.Selector = labels.SelectorFromSet(names.ComponentLabels(in.Cluster, names.KubeAPIServer)).String()
	state := seen.Workloads[names.KubeAPIServer]
	if state == nil {
		state = &workloads.State{}
	}
	status.DesiredReplicas = ptr.To(state.Desired)
	status.Replicas = ptr.To(state.Current)
	status.ReadyReplicas = ptr.To(state.Ready)
	status.AvailableReplicas = ptr.To(state.Available)
	status.UpToDateReplicas = ptr.To(state.Updated)
}

func setEtcd(in *Input, seen *Observation) {
	status := &in.ControlPlane.Status
	var clusters []controlplanev1.EtcdClusterStatus
	var summary []string
	for _, component := range etcdclusters.Of(in.ControlPlane) {
		wanted := *etcdclusters.Spec(in.ControlPlane, component).Replicas
		state := seen.Workloads[component]
		if state == nil {
			state = &workloads.State{}
		}
		before, health := etcdclusters.Status(in.ControlPlane, component), seen.Health(component)
		clusters = append(clusters, controlplanev1.EtcdClusterStatus{
			Name:          etcdclusters.Name(component),
			Replicas:      ptr.To(wanted),
			ReadyReplicas: ptr.To(state.Ready),
			Bootstrapped:  ptr.To(etcdclusters.Bootstrapped(in.ControlPlane, component) || joined(health)),
			ClusterID:     clusterID(health, before.ClusterID),
			RestoredAt:    before.RestoredAt,
			Restoring:     before.Restoring,
			Members:       listedMembers(health, before.Members),
		})
		summary = append(summary, fmt.Sprintf("%d/%d", state.Ready, wanted))
	}
	status.Etcd = clusters
	status.EtcdHealth = strings.Join(summary, " ")
}

// clusterID is what members say of their cluster, or said before.
func clusterID(health *etcd.Health, before string) string {
	if health == nil {
		return before
	}
	return cmp.Or(health.ClusterID, before)
}

// joined reports whether every member that there should be is one, by what etcd itself says.
func joined(health *etcd.Health) bool {
	return health != nil && health.Err == nil && len(health.Members) > 0 && len(health.Problems()) == 0
}

// SetVersions lists every version that a pod of a Kubernetes component still runs, with the number
// of API servers at it, from older to newer. Without such a pod what was seen last stays.
func SetVersions(controlPlane *controlplanev1.KOKControlPlane, pods map[string][]corev1.Pod) {
	apiServers := map[string]int32{}
	for _, component := range registry.Components.Kubernetes() {
		for i := range pods[component] {
			version := hostpods.Version(&pods[component][i])
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
