// Package names gives every object of a tenant's control plane its name and labels. Objects in the
// host cluster are found by these labels, never by UIDs, which a move to another management cluster
// changes.
package names

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// FieldManager owns the fields that the controller applies.
	FieldManager = "kok-control-plane"
	// ManagerUser is who the manager is in a tenant, and for its etcds, by a certificate that lives an hour and never
	// leaves the manager's memory.
	ManagerUser = "kok-control-plane"

	// ManagedByLabel has the value ManagedBy on every object that the controller made. The
	// manager's caches hold objects with this label only.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel.
	ManagedBy = "kok-control-plane"

	// ClusterNameLabel names the tenant's Cluster.
	ClusterNameLabel = clusterv1.ClusterNameLabel
	// ClusterNamespaceLabel names the namespace of the tenant's Cluster in the management cluster.
	ClusterNamespaceLabel = "kok.cluster.x-k8s.io/cluster-namespace"
	// ComponentLabel names the component that an object belongs to.
	ComponentLabel = "app.kubernetes.io/component"
	// MetricsReaderLabel marks pods that read metrics, such as those of Prometheus. Policies of components on the pod network let them
	// in, if spec.metrics says so.
	MetricsReaderLabel = "kok.cluster.x-k8s.io/metrics-reader"
	// VersionLabel is the Kubernetes version that a pod runs.
	VersionLabel = "app.kubernetes.io/version"
)

// The manager's pods carry this label, which Cluster API gives to all objects of a provider.
const (
	ProviderLabel = "cluster.x-k8s.io/provider"
	Provider      = "control-plane-kok"
)

// KubeletClientUser is whom kube-apiserver is to kubelets: the common name of its certificate, to which a role is bound.
const KubeletClientUser = "kube-apiserver-kubelet-client"

// Components of a control plane, as values of ComponentLabel and suffixes of object names.
const (
	EtcdData              = "etcd-data"
	EtcdEvents            = "etcd-events"
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	KubeScheduler         = "kube-scheduler"
	// PKI is the component of key material and the kubeconfig. Secrets with certificates are of the component that mounts them.
	PKI = "pki"
	// Services is the component of the addresses of all others.
	Services = "services"
)

// IsEtcd reports whether a component is one of the etcd clusters.
func IsEtcd(component string) bool { return component == EtcdData || component == EtcdEvents }

// Labels are the labels of every object of the tenant.
func Labels(cluster client.ObjectKey) map[string]string {
	return map[string]string{
		ManagedByLabel:        ManagedBy,
		ClusterNameLabel:      cluster.Name,
		ClusterNamespaceLabel: cluster.Namespace,
	}
}

// Tenant is the Cluster that an object's labels name; empty for an object that is not of a tenant.
func Tenant(object client.Object) client.ObjectKey {
	labels := object.GetLabels()
	if labels[ManagedByLabel] != ManagedBy || labels[ClusterNameLabel] == "" {
		return client.ObjectKey{}
	}
	return client.ObjectKey{Namespace: labels[ClusterNamespaceLabel], Name: labels[ClusterNameLabel]}
}

// ComponentLabels are the labels of every object of one component of the tenant, and the selector
// of its pods.
func ComponentLabels(cluster client.ObjectKey, component string) map[string]string {
	labels := Labels(cluster)
	labels[ComponentLabel] = component
	return labels
}

// Object is the name of a component's main object: "<cluster>-<component>".
func Object(cluster, component string) string { return cluster + "-" + component }

// APIService is the name of the Service by which API servers are reached in the host cluster.
func APIService(cluster string) string { return Object(cluster, KubeAPIServer) }

// Certs is the name of the Secret with a component's leaf certificates.
func Certs(cluster, component string) string { return Object(cluster, component) + "-certs" }

// MetricsCerts is the name of the Secret by which Prometheus reads the metrics of components.
func MetricsCerts(cluster string) string { return Certs(cluster, "metrics") }

// Config is the name of the ConfigMap with a component's configuration files.
func Config(cluster, component string) string { return Object(cluster, component) + "-config" }

// Backup is the name of the Secret with what the members of the data etcd need to be backed up and restored: keys, and
// credentials of the store.
func Backup(cluster string) string { return Object(cluster, EtcdData) + "-backup" }

// RestoreRecord is the name of the ConfigMap with the record of the last restore in place.
func RestoreRecord(cluster string) string { return Object(cluster, EtcdData) + "-restore" }

// KeyMaterial is the name of the Secret in the host cluster that holds the second copy of all key
// material; pods mount the parts that they need from it.
func KeyMaterial(cluster string) string { return cluster + "-key-material" }

// LoadBalancer is the name of the Secret with the configuration of the load balancer on workers that
// another bootstrap provider than ours makes.
func LoadBalancer(cluster string) string { return cluster + "-apiserver-lb" }

// DataVolume is the name of the volume of a member of etcd in its pod, and begins the names of claims of such volumes.
const DataVolume = "kok-data"

// SnapshotsVolume is the name of the volume for snapshots that a member of etcd has of its own, and begins the names of claims of such
// volumes.
const SnapshotsVolume = "kok-own-snapshots"

// HoldsSnapshots reports whether a PersistentVolumeClaim may have the snapshots that a member of etcd keeps, judged by its name.
func HoldsSnapshots(claim string) bool { return strings.HasPrefix(claim, SnapshotsVolume+"-") }

// HoldsData reports whether a PersistentVolumeClaim may have the data of a member of etcd, judged by its name.
func HoldsData(claim string) bool { return strings.HasPrefix(claim, DataVolume+"-") }

// keySecrets are the endings of the names of Secrets with key material and credentials of tenants.
var keySecrets = []string{"-key-material", "-certs", "-ca", "-etcd", "-etcd-events", "-proxy", "-sa", "-encryption", "-key-rotation", "-kubeconfig", "-etcd-data-backup"}

// HoldsKeys reports whether a Secret may hold keys of a tenant, judged by its name, and which
// ending of the name says so.
func HoldsKeys(secret string) (ending string, holds bool) {
	for _, ending := range keySecrets {
		if strings.HasSuffix(secret, ending) {
			return ending, true
		}
	}
	return "", false
}
