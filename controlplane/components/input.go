// Package components turns a KOKControlPlane into the objects of the host cluster that run it. Each
// component is a folder with readable YAML and a small typed adapter; everything that all of them
// share (placement, security, labels, volumes, extra arguments) is set here, in one place. Rendering
// is pure: no client, no clock, the same input gives the same bytes.
package components

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

// Input is everything that a rendering depends on. The hash of what one component needs of it ([Component.Inputs]) decides when
// that component takes a new rendering, so what is hashed never changes by itself: no certificate content, no node address, no
// observed state but the addresses of Services and the exposure, which are given once and recorded.
// Fields without JSON are not hashed. Of those, EtcdMembers is observed.
type Input struct {
	// Cluster is the tenant's Cluster. Its objects live in the namespace of the same name.
	Cluster client.ObjectKey `json:"cluster"`
	// Version is the Kubernetes version, with "v".
	Version string `json:"version"`
	// Spec is the control plane's spec, reduced to what renderings depend on; see Reduce.
	Spec controlplanev1.KOKControlPlaneSpec `json:"spec"`
	// EtcdImageTag is the tag of the etcd image that goes with Version. It is this program's choice, as
	// the assets are, and no input: a newer program with another choice must not restart members.
	EtcdImageTag string `json:"-"`
	// EtcdAgentImage is the image of kok-etcd-agent, whose container prepare looks at a member's data before etcd starts; empty
	// for no such container. Each release has another, and it is no input for the same reason.
	EtcdAgentImage string `json:"-"`
	// KonnectivityImageTag is the tag of konnectivity's images, no input for the same reason.
	KonnectivityImageTag string `json:"-"`
	// Network is the tenant's own network.
	Network Network `json:"network"`
	// Ports are the ports of the components; spec.hosting.ports or the exposure, which are hashed, say which.
	Ports ports.Ports `json:"-"`
	// Exposure is where API servers on the pod network are reached.
	Exposure Exposure `json:"exposure,omitzero"`
	// APIServerReplicas is the number of API servers of a Deployment. It is no input: an autoscaler that
	// changes it must not make anything adopt a new rendering.
	APIServerReplicas int32 `json:"-"`
	// Addresses are the cluster IPs of the tenant's Services in the host cluster, by Service name.
	Addresses map[string]string `json:"addresses"`
	// EtcdMembers is the number of members of an etcd cluster, by component, where that is more than
	// Spec asks for. A member keeps its address, certificate and file until it is removed. It is no
	// input: no pod depends on it.
	EtcdMembers map[string]int32 `json:"-"`
	// ServiceAccountKeys are the files of service account keys where a rotation gave the tenant another key, EncryptionKeys those of
	// encryption keys, ClusterCAs those of cluster CAs, FrontProxyCAs those of front proxy CAs, EtcdCAs and EtcdEventsCAs those of the CAs of
	// both etcd clusters. Each phase of a rotation changes these files, and so restarts the components that have them.
	ServiceAccountKeys KeyFiles `json:"serviceAccountKeys,omitzero"`
	EncryptionKeys     KeyFiles `json:"encryptionKeys,omitzero"`
	ClusterCAs         KeyFiles `json:"clusterCAs,omitzero"`
	FrontProxyCAs      KeyFiles `json:"frontProxyCAs,omitzero"`
	EtcdCAs            KeyFiles `json:"etcdCAs,omitzero"`
	EtcdEventsCAs      KeyFiles `json:"etcdEventsCAs,omitzero"`
	// SnapshotVolumes are the volumes for snapshots that the members of the data etcd have from before, when Spec asks for none any more:
	// nobody can take them out of a StatefulSet.
	SnapshotVolumes *controlplanev1.PerMemberStoreSpec `json:"snapshotVolumes,omitempty"`
	// User is the UID of the pods. 0 means the UID that all older tenants share. It is no input: the UID of a running tenant
	// never changes, because it owns the files of the members of etcd.
	User int64 `json:"-"`
	// RolloutAfter is spec.rollout.after once it has passed, else empty. It is no input: revisions say
	// which they were made for.
	RolloutAfter string `json:"-"`
}

// Network is the network of the tenant's own pods and Services.
type Network struct {
	PodCIDRs     []string `json:"podCIDRs"`
	ServiceCIDRs []string `json:"serviceCIDRs"`
	DNSDomain    string   `json:"dnsDomain"`
	// APIServerPort is the port of the API server's Service, which no pod template names but by the exposure.
	APIServerPort int32 `json:"-"`
}

// Reduce returns the part of a spec that renderings depend on. What is left out may change without a new rendering. The version
// is an input of its own, and revisions keep the rollout time. How far the rotation of a key has come is an input of its own, too.
// The endpoint and names in certificates reach only Secrets. Addons reach only the tenant, except for konnectivity's server. The kubeconfig of the host cluster reaches no pod. The
// default network mode is left out, so that it equals an unset one, and so are separate events. Events in the data have an etcd
// of no members. How an etcd is backed up, which data it begins with, and whose data never start again, is in files that the
// agent of a member reads again. Who is given up, what may be given up, and when events
// begin anew, is for the manager alone. Who reads metrics is
// let in by NetworkPolicies, which are of the pod network.
func Reduce(spec controlplanev1.KOKControlPlaneSpec) controlplanev1.KOKControlPlaneSpec {
	reduced := *spec.DeepCopy()
	reduced.Version = ""
	reduced.Replicas = nil
	reduced.Hosting.KubeconfigRef = controlplanev1.KubeconfigReference{}
	if !spec.Hosting.OnPodNetwork() {
		reduced.Hosting.NetworkMode = ""
	}
	if !spec.KubeAPIServer.IsDeployment() {
		reduced.KubeAPIServer.Workload = ""
	}
	reduced.ControlPlaneEndpoint = controlplanev1.APIEndpoint{}
	reduced.KubeAPIServer.CertSANs = nil
	reduced.Rollout, reduced.KeyRotation = controlplanev1.RolloutSpec{}, controlplanev1.KeyRotationSpec{}
	reduced.Addons = controlplanev1.AddonsSpec{Konnectivity: reduceKonnectivity(spec.Addons.Konnectivity)}
	reduced.EncryptionAtRest.Resources = nil
	if reduced.Metrics.Mode != controlplanev1.MetricsManaged || !spec.Hosting.OnPodNetwork() {
		reduced.Metrics = controlplanev1.MetricsSpec{}
	}
	reduced.Etcd.Backup, reduced.Etcd.Restore = reduceBackup(spec.Etcd.Backup), nil
	reduced.Etcd.GivenUp, reduced.Etcd.Recovery = nil, ""
	if spec.Etcd.Restore != nil {
		reduced.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{}
	}
	reduced.Etcd.Events.FoundAnewAt = metav1.Time{}
	if reduced.Etcd.Events.Mode = ""; spec.Etcd.EventsInData() {
		reduced.Etcd.Events = controlplanev1.EtcdEventsSpec{
			Mode: controlplanev1.EtcdEventsInData, EtcdClusterSpec: controlplanev1.EtcdClusterSpec{Replicas: ptr.To[int32](0)},
		}
	}
	for _, cluster := range []*controlplanev1.EtcdClusterSpec{&reduced.Etcd.Data, &reduced.Etcd.Events.EtcdClusterSpec} {
		// Here an empty name means the default class. In a claim it means no class, and only a missing name means the default.
		if ptr.Deref(cluster.Storage.StorageClassName, "") == "" {
			cluster.Storage.StorageClassName = nil
		}
	}
	return reduced
}

// reduceKonnectivity leaves out what is switched off: what a control plane without the field depends on,
// and one whose field was defaulted, is the same.
func reduceKonnectivity(spec controlplanev1.KonnectivitySpec) controlplanev1.KonnectivitySpec {
	if !spec.Managed() {
		return controlplanev1.KonnectivitySpec{}
	}
	return controlplanev1.KonnectivitySpec{Mode: spec.Mode, ServerImage: spec.ServerImage}
}

// reduceBackup keeps what the pods of members depend on: whether backups are switched on, and which volume the pods mount.
func reduceBackup(spec *controlplanev1.EtcdBackupSpec) *controlplanev1.EtcdBackupSpec {
	if spec == nil {
		return nil
	}
	store := controlplanev1.EtcdSnapshotStore{ClaimName: spec.Store.ClaimName, PerMember: spec.Store.PerMember.DeepCopy()}
	if own := store.PerMember; own != nil && ptr.Deref(own.StorageClassName, "") == "" {
		own.StorageClassName = nil
	}
	return &controlplanev1.EtcdBackupSpec{Store: store}
}

// Hash identifies the inputs, safe for names and label values.
func (in *Input) Hash() (string, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("hash the inputs of cluster %s: %w", in.Cluster, err)
	}
	h := fnv.New64a()
	_, _ = h.Write(raw)
	return rand.SafeEncodeString(strconv.FormatUint(h.Sum64(), 10)), nil
}

// Image is the image of a Kubernetes component: the override, else "<repository>/<name>:<version>".
func (in *Input) Image(name, override string) string {
	if override != "" {
		return override
	}
	return fmt.Sprintf("%s/%s:%s", in.Spec.ImageRepository, name, versions.ImageTag(in.Version))
}
