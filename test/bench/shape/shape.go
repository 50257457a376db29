// Package shape says which control planes are measured, and when one of them counts as usable.
package shape

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/utils/ptr"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
)

// Etcds are both etcd clusters, Others what starts once kube-apiserver works.
var (
	Etcds  = []string{names.EtcdData, names.EtcdEvents}
	Others = []string{names.KubeControllerManager, names.KubeScheduler}
)

// Components are all components of a control plane.
func Components() []string { return append(append([]string{names.KubeAPIServer}, Etcds...), Others...) }

// Shape is how many replicas each component has, and where events are.
type Shape struct {
	Name string
	// EtcdMembers is the number of members of each etcd cluster.
	EtcdMembers, APIServers, ControllerManagers, Schedulers int32
	// EventsMode is where events are; empty for an etcd cluster of their own.
	EventsMode controlplanev1.EtcdEventsMode
}

// Shapes that are measured. Small is the least that a control plane takes.
var (
	HighlyAvailable = Shape{Name: "ha", EtcdMembers: 3, APIServers: 3, ControllerManagers: 2, Schedulers: 2}
	Single          = Shape{Name: "single", EtcdMembers: 1, APIServers: 1, ControllerManagers: 1, Schedulers: 1}
	Small           = Shape{Name: "small", EtcdMembers: 1, APIServers: 1, ControllerManagers: 1, Schedulers: 1, EventsMode: controlplanev1.EtcdEventsInData}
)

// Named is the one of some shapes that has the name; the error names them all.
func Named(name string, of ...Shape) (Shape, error) {
	names := make([]string, 0, len(of))
	for _, s := range of {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Shape{}, fmt.Errorf("%q is none of %s", name, strings.Join(names, ", "))
}

// Replicas is the number of processes of a component.
func (s Shape) Replicas(component string) int32 {
	switch component {
	case names.KubeAPIServer:
		return s.APIServers
	case names.KubeControllerManager:
		return s.ControllerManagers
	case names.KubeScheduler:
		return s.Schedulers
	}
	return s.EtcdMembers
}

// Usable is what every control plane of the shape must have reached, whatever started it: each replica answers its
// readiness path with 200, both leases are held, and a ConfigMap was written.
func (s Shape) Usable() []timeline.Need {
	needs := make([]timeline.Need, 0, 8)
	for _, component := range append(Etcds, names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler) {
		needs = append(needs, timeline.Need{Stage: timeline.Answers, Component: component, Count: int(s.Replicas(component))})
	}
	return append(needs, probe.APINeeds()...)
}

// Objects are what a person applies. With labels, everything runs on host nodes that have these as well: a control plane has
// a kube-apiserver on each of its host nodes.
func (s Shape) Objects(key client.ObjectKey, version string, labels map[string]string) (*clusterv1.Cluster, *controlplanev1.KOKControlPlane) {
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	cluster := &clusterv1.Cluster{
		ObjectMeta: meta,
		Spec: clusterv1.ClusterSpec{
			ClusterNetwork: clusterv1.ClusterNetwork{
				Pods:          clusterv1.NetworkRanges{CIDRBlocks: []string{"10.244.0.0/16"}},
				Services:      clusterv1.NetworkRanges{CIDRBlocks: []string{"10.96.0.0/16"}},
				ServiceDomain: "cluster.local",
			},
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: key.Name,
			},
		},
	}
	controlPlane := &controlplanev1.KOKControlPlane{
		ObjectMeta: meta,
		Spec: controlplanev1.KOKControlPlaneSpec{
			Version:               version,
			KubeControllerManager: controlplanev1.ReplicatedComponentSpec{Replicas: ptr.To(s.ControllerManagers)},
			KubeScheduler:         controlplanev1.ReplicatedComponentSpec{Replicas: ptr.To(s.Schedulers)},
			Etcd: controlplanev1.EtcdSpec{
				Data:   controlplanev1.EtcdClusterSpec{Replicas: ptr.To(s.EtcdMembers)},
				Events: controlplanev1.EtcdEventsSpec{Mode: s.EventsMode, EtcdClusterSpec: controlplanev1.EtcdClusterSpec{Replicas: ptr.To(s.EtcdMembers)}},
			},
		},
	}
	if len(labels) > 0 {
		controlPlane.Spec.Hosting.NodeSelector = map[string]string{controlplanev1.HostNodeLabel: "true"}
		maps.Copy(controlPlane.Spec.Hosting.NodeSelector, labels)
	}
	return cluster, controlPlane
}
