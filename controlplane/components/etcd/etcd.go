// Package etcd renders an etcd cluster of a control plane: a StatefulSet, one Service a member, and
// one configuration file a member.
package etcd

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// QuotaAnnotation makes members restart, one by one, when their quota changes: etcd reads its
// configuration file only when it starts.
const QuotaAnnotation = "kok.cluster.x-k8s.io/quota-backend-bytes"

const (
	// Container is the name of the container that etcd runs in.
	Container = "etcd"
	// CertsDirectory is where a member finds its certificates.
	CertsDirectory = "/etc/etcd/pki"
	dataVolume     = names.DataVolume
)

//go:embed statefulset.yaml
var statefulSet []byte

// Cluster describes one of the two etcd clusters of a control plane.
type Cluster struct {
	// Component is names.EtcdData or names.EtcdEvents.
	Component string
	// Field is the cluster's field in spec.etcd, and its name in status. Part is what is in the field.
	Field string
	Part  func(etcd *controlplanev1.EtcdSpec) *controlplanev1.EtcdClusterSpec
	// FoundAnewBy is the field of spec by which a person has the cluster founded anew.
	FoundAnewBy string
	// client is where clients connect to, peer where other members do, metrics is for probes and metrics.
	client, peer, metrics ports.Port
	// backup is where the manager reaches the agent of a member that takes snapshots; nil for a cluster without any.
	backup *ports.Port
	// Signer signs the certificates of members, and trusted are files with those whom members trust as each other and as clients.
	Signer  pki.Signer
	trusted func(keys *pki.KeyMaterial) (map[string][]byte, error)
	// keys are those that rotate and that members have.
	keys components.HeldKeys
}

var (
	// Data holds everything but events.
	Data = Cluster{
		Component:   names.EtcdData,
		Field:       "data",
		Signer:      pki.EtcdCA,
		trusted:     trustedByData,
		keys:        dataKeys,
		FoundAnewBy: "spec.etcd.restore",
		Part:        func(etcd *controlplanev1.EtcdSpec) *controlplanev1.EtcdClusterSpec { return &etcd.Data },
		client:      ports.Port{Name: "client", Offset: 1, Usual: 2379},
		peer:        ports.Port{Name: "peer", Offset: 2, Usual: 2380},
		metrics:     ports.Port{Name: "metrics", Offset: 3, Usual: 2381, Loopback: true},
		backup:      &ports.Port{Name: backup.Container, Offset: 12, Usual: 2382},
	}
	// Events holds events only.
	Events = Cluster{
		Component:   names.EtcdEvents,
		Field:       "events",
		Signer:      pki.EtcdEventsCA,
		trusted:     trustedByEvents,
		keys:        eventsKeys,
		FoundAnewBy: "spec.etcd.events.foundAnewAt",
		Part: func(etcd *controlplanev1.EtcdSpec) *controlplanev1.EtcdClusterSpec {
			return &etcd.Events.EtcdClusterSpec
		},
		client:  ports.Port{Name: "client", Offset: 4, Usual: 2379},
		peer:    ports.Port{Name: "peer", Offset: 5, Usual: 2380},
		metrics: ports.Port{Name: "metrics", Offset: 6, Usual: 2381, Loopback: true},
	}
)

// All are the etcd clusters that a control plane can have.
var All = []Cluster{Data, Events}

// Components are the names of their components.
func Components() []string {
	var all []string
	for _, cluster := range All {
		all = append(all, cluster.Component)
	}
	return all
}

// Named is the etcd cluster of a component that is one.
func Named(component string) Cluster {
	return All[slices.IndexFunc(All, func(c Cluster) bool { return c.Component == component })]
}

// Spec is what an input asks of the cluster.
func (c Cluster) Spec(in *components.Input) controlplanev1.EtcdClusterSpec {
	return *c.Part(&in.Spec.Etcd)
}

// Restorable reports whether members take snapshots, and may begin with one. A cluster that is not can only be founded anew, without data.
func (c Cluster) Restorable() bool { return c.backup != nil }

// Ports are the numbers of the ports of the members of one cluster. Backup is 0 for a cluster without snapshots.
type Ports struct{ Client, Peer, Metrics, Backup int32 }

// Ports are those of the cluster's members.
func (c Cluster) Ports(in *components.Input) Ports { return c.PortsOf(in.Ports) }

// PortsOf are those of the cluster's members by what a tenant has.
func (c Cluster) PortsOf(tenant ports.Ports) Ports {
	numbers := Ports{Client: tenant.Number(c.client), Peer: tenant.Number(c.peer), Metrics: tenant.Number(c.metrics)}
	if c.backup != nil {
		numbers.Backup = tenant.Number(*c.backup)
	}
	return numbers
}

// AsComponent describes the cluster as a component.
func (c Cluster) AsComponent() components.Component {
	listening, containers := []ports.Port{c.client, c.peer, c.metrics}, []string{Container, facts.Container}
	if c.backup != nil {
		listening, containers = append(listening, *c.backup), append(containers, backup.Container, backup.SalvageContainer)
	}
	return components.Component{
		Name: c.Component,
		Absent: func(spec *controlplanev1.KOKControlPlaneSpec) bool {
			return c.Component == names.EtcdEvents && spec.Etcd.EventsInData()
		},
		Condition: conditionsv1.EtcdClusterHealthyCondition,
		Keys:      c.keys,
		Patches: patches.Hosted{
			Workloads: []string{"StatefulSet"}, Containers: containers, Services: true, Quorum: true, Snapshots: c.Restorable(),
			Replicas: "set spec.etcd." + c.Field + ".replicas",
			Image:    "set spec.etcd.image",
			Args:     "each member reads a configuration file that the controller writes",
			Beside:   "the manager's flag --etcd-agent-image names it",
			Storage:  "set spec.etcd." + c.Field + ".storage",
			Config:   "the controller writes each member's configuration, remove it from the patch",
		},
		Workload:     func(*controlplanev1.KOKControlPlaneSpec) client.Object { return &appsv1.StatefulSet{} },
		Ports:        listening,
		Certificates: c.certificates,
		ClearUnused:  c.clearUnused,
		Services:     c.services,
		Objects:      c.objects,
		Files:        func(in *components.Input) (*corev1.ConfigMap, error) { return c.Config(in, Membership{}) },
	}
}

func (c Cluster) clearUnused(in *components.Input) {
	in.Network, in.Addresses, in.Exposure = components.Network{}, nil, components.Exposure{}
	c.keys.Reduce(in)
	in.Spec = controlplanev1.KOKControlPlaneSpec{
		Hosting:         in.Spec.Hosting,
		ImageRepository: in.Spec.ImageRepository,
		ImagePullSecret: in.Spec.ImagePullSecret,
		Etcd:            in.Spec.Etcd,
	}
	if c.Component == names.EtcdData {
		in.Spec.Etcd.Events = controlplanev1.EtcdEventsSpec{}
	} else {
		in.Spec.Etcd.Data = controlplanev1.EtcdClusterSpec{}
	}
	if c.backup == nil {
		in.Spec.Etcd.Backup, in.Spec.Etcd.Restore, in.SnapshotVolumes = nil, nil, nil
	}
}

// Members returns the names of the members that have an address, a certificate and a file. Their pods and Services
// have the same names. While the cluster grows, members that are not added yet are among them; while it shrinks, those
// that are not removed yet.
func (c Cluster) Members(in *components.Input) []string {
	return c.first(in, max(*c.Spec(in).Replicas, in.EtcdMembers[c.Component]))
}

// Wanted are the names of the members that the spec asks for.
func (c Cluster) Wanted(in *components.Input) []string { return c.first(in, *c.Spec(in).Replicas) }

func (c Cluster) first(in *components.Input, count int32) []string {
	members := make([]string, 0, count)
	for ordinal := range count {
		members = append(members, fmt.Sprintf("%s-%d", names.Object(in.Cluster.Name, c.Component), ordinal))
	}
	return members
}

// ClientURLs are the addresses that clients dial, one a member that the spec asks for: a client that
// knows all of them leaves a dead member at once.
func (c Cluster) ClientURLs(in *components.Input) []string {
	urls := make([]string, 0, *c.Spec(in).Replicas)
	for _, member := range c.Wanted(in) {
		urls = append(urls, c.ClientURL(in, member))
	}
	return urls
}

// ClientURL is the address at which clients dial a member.
func (c Cluster) ClientURL(in *components.Input, member string) string {
	return url(in.Addresses[member], c.Ports(in).Client)
}

// ownURL is the address at which clients in its own pod dial a member: it listens at all addresses, and where these are of IPv6 at those of
// IPv4, too.
func (c Cluster) ownURL(tenant ports.Ports) string {
	return url("127.0.0.1", c.PortsOf(tenant).Client)
}

// Etcdctl begins a command of etcdctl that a person runs in the pod of a member, with access to the host cluster.
func (c Cluster) Etcdctl(namespace, member string, tenant ports.Ports) string {
	return fmt.Sprintf("kubectl --namespace %s exec %s --container %s -- etcdctl --endpoints %s --cacert %s --cert %s --key %s",
		namespace, member, Container, c.ownURL(tenant), path(CAFile), path(member+certSuffix), path(member+keySuffix))
}

// PeerURL is the address at which other members dial a member.
func (c Cluster) PeerURL(in *components.Input, member string) string {
	return url(in.Addresses[member], c.Ports(in).Peer)
}

// WithReplicas is the input with another number of members.
func (c Cluster) WithReplicas(in *components.Input, replicas int32) *components.Input {
	other := *in
	other.Spec = *in.Spec.DeepCopy()
	*c.Spec(&other).Replicas = replicas
	return &other
}

// WithVolumeSize is the input with volumes of another size.
func (c Cluster) WithVolumeSize(in *components.Input, size resource.Quantity) *components.Input {
	other := *in
	other.Spec = *in.Spec.DeepCopy()
	*c.Spec(&other).Storage.Size = size
	return &other
}

// Ordinal is the place of a pod, or of what is named after one, among those of the cluster; -1 for one
// that is not of it.
func (c Cluster) Ordinal(in *components.Input, pod string) int {
	suffix, ok := strings.CutPrefix(pod, names.Object(in.Cluster.Name, c.Component)+"-")
	ordinal, err := strconv.ParseUint(suffix, 10, 16)
	if !ok || err != nil {
		return -1
	}
	return int(ordinal)
}

// Claim is the name of the claim of a member's data, and SnapshotsClaim that of the volume for snapshots that it may have of its own.
func Claim(member string) string { return dataVolume + "-" + member }

// SnapshotsClaim is described at Claim.
func SnapshotsClaim(member string) string { return ownVolume + "-" + member }

// services gives every member an address that outlives its pod and needs no DNS. Members that are
// not ready are reachable too: they become ready through each other.
func (c Cluster) services(in *components.Input) ([]*corev1.Service, error) {
	block := c.Ports(in)
	services := make([]*corev1.Service, 0, len(c.Members(in)))
	for _, member := range c.Members(in) {
		selector := names.ComponentLabels(in.Cluster, c.Component)
		selector[appsv1.StatefulSetPodNameLabel] = member
		service := &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			Spec: corev1.ServiceSpec{
				Type:                     corev1.ServiceTypeClusterIP,
				ClusterIP:                in.Addresses[member],
				PublishNotReadyAddresses: true,
				Selector:                 selector,
				Ports: []corev1.ServicePort{
					{Name: "client", Protocol: corev1.ProtocolTCP, Port: block.Client, TargetPort: intstr.FromInt32(block.Client)},
					{Name: "peer", Protocol: corev1.ProtocolTCP, Port: block.Peer, TargetPort: intstr.FromInt32(block.Peer)},
				},
			},
		}
		if c.backsUp(in) {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
				Name: c.backup.Name, Protocol: corev1.ProtocolTCP, Port: block.Backup, TargetPort: intstr.FromInt32(block.Backup),
			})
		}
		components.SetMeta(service, in, c.Component, member)
		services = append(services, service)
	}
	return services, nil
}

func (c Cluster) objects(in *components.Input) ([]client.Object, error) {
	spec := c.Spec(in)
	workload := components.Decode[appsv1.StatefulSet](statefulSet)
	components.SetMeta(workload, in, c.Component, names.Object(in.Cluster.Name, c.Component))
	workload.Spec.Replicas = spec.Replicas
	workload.Spec.Selector = components.Selector(in, c.Component)
	c.adaptPod(&workload.Spec.Template, in)
	if spec.Storage.Type != controlplanev1.EtcdStorageEmptyDir {
		storage := c.Spec(in).Storage
		workload.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{c.claim(in, dataVolume, storage.StorageClassName, *storage.Size)}
	}
	if own := c.ownVolumes(in); own != nil {
		workload.Spec.VolumeClaimTemplates = append(workload.Spec.VolumeClaimTemplates, c.claim(in, ownVolume, own.StorageClassName, *own.Size))
	}
	objects := append([]client.Object{workload}, c.DisruptionBudget(in, *spec.Replicas)...)
	return append(objects, c.policy(in)...), nil
}

// DisruptionBudget lets one of so many members be evicted at a time. A member that is not ready counts as gone: while
// another one is drained, it may be what the quorum needs next.
func (c Cluster) DisruptionBudget(in *components.Input, replicas int32) []client.Object {
	objects := components.DisruptionBudget(in, c.Component, replicas)
	for _, object := range objects {
		object.(*policyv1.PodDisruptionBudget).Spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.IfHealthyBudget)
	}
	return objects
}

func (c Cluster) adaptPod(template *corev1.PodTemplateSpec, in *components.Input) {
	container := &template.Spec.Containers[0]
	container.Image = in.Spec.Etcd.Image
	if container.Image == "" {
		container.Image = fmt.Sprintf("%s/etcd:%s", in.Spec.ImageRepository, in.EtcdImageTag)
	}

	block := c.Ports(in)
	components.SetPort(container, c.client.Name, block.Client)
	components.SetPort(container, c.peer.Name, block.Peer)
	components.SetPort(container, c.metrics.Name, block.Metrics)
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
		components.Probe(probe, block.Metrics)
	}

	template.Spec.Volumes = []corev1.Volume{
		{Name: "kok-config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: names.Config(in.Cluster.Name, c.Component)},
		}}},
		{Name: "kok-certs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: names.Certs(in.Cluster.Name, c.Component),
		}}},
	}
	if c.Spec(in).Storage.Type == controlplanev1.EtcdStorageEmptyDir {
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
			Name: dataVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: c.Spec(in).Storage.Size}},
		})
	}
	container.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: memoryLimit(*c.Spec(in).QuotaBackendSize)}
	c.keys.Set(template, in, c.Component)
	c.adaptPrepare(&template.Spec, in)
	c.adaptBackup(&template.Spec, in)
	components.FinishPod(template, in, c.Component, controlplanev1.ComponentSpec{Resources: c.Spec(in).Resources})
	if len(template.Spec.InitContainers) > 0 {
		// The manager reads what prepare writes there, and no log.
		template.Spec.InitContainers[0].TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	components.OnePerHost(&template.Spec, in, c.Component)
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, QuotaAnnotation, strconv.FormatInt(c.Spec(in).QuotaBackendSize.Value(), 10))
}

// adaptPrepare gives prepare its image and what etcd may use: a pod's requests and limits are the higher ones of its init
// containers and of all others, so that those of the pod stay. Its image starts the program.
func (c Cluster) adaptPrepare(pod *corev1.PodSpec, in *components.Input) {
	if in.EtcdAgentImage == "" {
		pod.InitContainers = nil
		return
	}
	prepare := &pod.InitContainers[0]
	prepare.Name, prepare.Image = facts.Container, in.EtcdAgentImage
	prepare.Args = append(prepare.Args, "--data-dir="+dataDirectory)
	prepare.Resources.Limits = pod.Containers[0].Resources.Limits.DeepCopy()
	if own := c.Spec(in).Resources; own != nil {
		prepare.Resources = *own.DeepCopy()
	}
}

// memoryLimit has room for the index and for answers that hold all of a database of that size, and 2 GiB for all else.
func memoryLimit(quota resource.Quantity) resource.Quantity {
	limit := resource.MustParse("2Gi")
	limit.Add(quota)
	limit.Add(quota)
	return limit
}

// policy lets in etcd's members, API servers, and the manager, which probes etcd and asks for snapshots.
func (c Cluster) policy(in *components.Input) []client.Object {
	members, block := components.PodsOf(in, c.Component), c.Ports(in)
	rules := []networkingv1.NetworkPolicyIngressRule{
		components.Admit([]networkingv1.NetworkPolicyPeer{components.PodsOf(in, names.KubeAPIServer), components.Manager()}, block.Client),
		components.Admit([]networkingv1.NetworkPolicyPeer{members}, block.Client, block.Peer),
	}
	switch {
	case c.perMember(in):
		rules = append(rules, components.Admit([]networkingv1.NetworkPolicyPeer{components.Manager(), members}, block.Backup))
	case c.backsUp(in):
		rules = append(rules, components.Admit([]networkingv1.NetworkPolicyPeer{components.Manager()}, block.Backup))
	}
	return components.NetworkPolicy(in, c.Component, rules...)
}

func (c Cluster) claim(in *components.Input, name string, class *string, size resource.Quantity) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: names.ComponentLabels(in.Cluster, c.Component)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: class,
			VolumeMode:       ptr.To(corev1.PersistentVolumeFilesystem),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}
}
