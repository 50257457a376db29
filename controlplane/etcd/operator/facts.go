package operator

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/hostnodes"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/recovery/seen"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Facts are read from the host cluster's API server: a cache may not know yet what the step before did.
//
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get
// +kubebuilder:rbac:groups="",resources=services,verbs=list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list

// dial is how to connect to a member in a host cluster whose cluster IPs lead nowhere from here; nil for the
// management cluster.
func (t *Task) dial(member string) func(context.Context) (net.Conn, error) {
	if t.Host.Dial == nil {
		return nil
	}
	pod, port := client.ObjectKey{Namespace: t.Input.Cluster.Namespace, Name: member}, t.Cluster.Ports(&t.Input).Client
	return func(ctx context.Context) (net.Conn, error) { return t.Host.Dial(ctx, pod, port) }
}

// pods lists the pods of the control plane, by component.
func (c *cluster) pods(ctx context.Context) (map[string][]corev1.Pod, error) {
	return hostpods.List(ctx, c.Host.Live, c.Input.Cluster)
}

// statefulSet reads the StatefulSet of the cluster. It returns a NotFound error when the cluster has none.
func (c *cluster) statefulSet(ctx context.Context) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: c.Input.Cluster.Namespace, Name: names.Object(c.Input.Cluster.Name, c.Cluster.Component)}
	if err := c.Host.Live.Get(ctx, key, set); err != nil {
		return nil, fmt.Errorf("read StatefulSet %s: %w", key, err)
	}
	return set, nil
}

// usedMembers are the ordinals of members that kube-apiservers were told of. It ignores pods that have ended, which a ReplicaSet leaves in place.
func (c *cluster) usedMembers(apiServers []corev1.Pod) []int {
	var arguments []string
	for i := range apiServers {
		if hostpods.Ended(&apiServers[i]) {
			continue
		}
		for _, container := range apiServers[i].Spec.Containers {
			arguments = append(arguments, container.Args...)
		}
	}
	var used []int
	for name, address := range c.members {
		if slices.ContainsFunc(arguments, func(arg string) bool { return strings.Contains(arg, address.Client) }) {
			used = append(used, c.ordinal(name))
		}
	}
	return used
}

// openMembers are the ordinals of members whose configuration file lets them start without data. A member without a
// file is one of them.
func (c *cluster) openMembers(ctx context.Context) ([]int, error) {
	config, err := c.config(ctx)
	if err != nil {
		return nil, err
	}
	var ordinals []int
	for name := range c.members {
		file, err := fileOf(config, name)
		if err != nil {
			return nil, err
		}
		if file.Open() {
			ordinals = append(ordinals, c.ordinal(name))
		}
	}
	return ordinals, nil
}

// cameEarly reports whether a pod is older than the file that lets its learner join, and kubelet waits before it starts etcd again. The API
// server notes when the controller last changed the files. It also dates the pod, so that clocks of others do not count, and a pod
// that was made anew is not early again.
func (c *cluster) cameEarly(ctx context.Context, learner *recovery.Member, pod *corev1.Pod) (bool, error) {
	if !learner.Learner || learner.Started || !seen.BacksOff(pod) {
		return false, nil
	}
	config, err := c.config(ctx)
	if err != nil {
		return false, err
	}
	file, err := fileOf(config, learner.Name)
	return file.Joining() && !pod.CreationTimestamp.After(appliedLast(config)), err
}

// config has the configuration files of the members.
func (c *cluster) config(ctx context.Context) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: c.Input.Cluster.Namespace, Name: names.Config(c.Input.Cluster.Name, c.Cluster.Component)}
	if err := c.Host.Live.Get(ctx, key, config); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	return config, nil
}

// fileOf is the configuration file of a member.
func fileOf(config *corev1.ConfigMap, member string) (etcdcomponent.File, error) {
	file, err := etcdcomponent.Read(config.Data[member+".yaml"])
	if err != nil {
		return file, fmt.Errorf("ConfigMap %s, member %s: %w", client.ObjectKeyFromObject(config), member, err)
	}
	return file, nil
}

// appliedLast is when the controller last changed an object; zero when that is not known.
func appliedLast(object client.Object) time.Time {
	var last time.Time
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == names.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// claims are the volume claims of the data of members, by ordinal.
func (c *cluster) claims(ctx context.Context) (map[int]*corev1.PersistentVolumeClaim, error) {
	list, err := VolumeClaims(ctx, c.Host.Live, c.Input.Cluster, c.Cluster.Component, c.membersWithClaims())
	claims := map[int]*corev1.PersistentVolumeClaim{}
	for i := range list {
		if ordinal := c.ordinal(MemberOf(&list[i])); ordinal >= 0 {
			claims[ordinal] = &list[i]
		}
	}
	return claims, err
}

// membersWithClaims are the members whose data are on volumes; none where data go with pods.
func (c *cluster) membersWithClaims() []string {
	if c.isVolatile() {
		return nil
	}
	return c.Cluster.Members(&c.Input)
}

func (c *cluster) isVolatile() bool {
	return c.Cluster.Spec(&c.Input).Storage.Type == controlplanev1.EtcdStorageEmptyDir
}

// HostsOfVolumes are the host nodes that volumes of members of an etcd cluster were made for, by member; without those of which that is not
// known.
func HostsOfVolumes(ctx context.Context, reader client.Reader, cluster client.ObjectKey, component string, members []string) (map[string]string, error) {
	claims, err := VolumeClaims(ctx, reader, cluster, component, members)
	hosts := map[string]string{}
	for i := range claims {
		if host := claims[i].Annotations[hostnodes.SelectedNode]; host != "" {
			hosts[MemberOf(&claims[i])] = host
		}
	}
	return hosts, err
}

// MemberOf is the name of the member whose data a volume claim is for.
func MemberOf(claim client.Object) string {
	return strings.TrimPrefix(claim.GetName(), etcdcomponent.Claim(""))
}

// VolumeClaims are those of the data of an etcd cluster. No claim of the named members is missing because it lost its labels.
func VolumeClaims(ctx context.Context, reader client.Reader, cluster client.ObjectKey, component string, members []string) ([]corev1.PersistentVolumeClaim, error) {
	named := make([]string, len(members))
	for i, member := range members {
		named[i] = etcdcomponent.Claim(member)
	}
	data, _, err := AllVolumeClaims(ctx, reader, cluster, component, named...)
	return data, err
}

// AllVolumeClaims are the claims of the data of the members of an etcd cluster, and those of the volumes for snapshots that members have of
// their own. Claims are found by their labels. Somebody may remove these, and pods use a claim by its name: so the named ones are also looked
// for by their names before they count as gone.
func AllVolumeClaims(ctx context.Context, reader client.Reader, cluster client.ObjectKey, component string, named ...string) (data, snapshots []corev1.PersistentVolumeClaim, err error) {
	list := &corev1.PersistentVolumeClaimList{}
	if err := reader.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels(names.ComponentLabels(cluster, component))); err != nil {
		return nil, nil, fmt.Errorf("list the volume claims of %s: %w", component, err)
	}
	claims := list.Items
	for _, name := range named {
		if slices.ContainsFunc(list.Items, func(claim corev1.PersistentVolumeClaim) bool { return claim.Name == name }) {
			continue
		}
		found, err := claimsNamed(ctx, reader, client.ObjectKey{Namespace: cluster.Namespace, Name: name})
		if err != nil {
			return nil, nil, err
		}
		claims = append(claims, found...)
	}
	for _, claim := range claims {
		if names.HoldsSnapshots(claim.Name) {
			snapshots = append(snapshots, claim)
		} else {
			data = append(data, claim)
		}
	}
	return data, snapshots, nil
}

// claimsNamed is the volume claim with a name, or none. It is listed, because accounts in host clusters may list claims and not get them.
func claimsNamed(ctx context.Context, reader client.Reader, key client.ObjectKey) ([]corev1.PersistentVolumeClaim, error) {
	list := &corev1.PersistentVolumeClaimList{}
	if err := reader.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name}); err != nil {
		return nil, fmt.Errorf("look for volume claim %s: %w", key, err)
	}
	return list.Items, nil
}
