package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// KOKControlPlaneTemplateSpec is the desired state of a KOKControlPlaneTemplate.
type KOKControlPlaneTemplateSpec struct {
	// template is what KOKControlPlanes are made from.
	// +required
	Template KOKControlPlaneTemplateResource `json:"template,omitempty,omitzero"`
}

// KOKControlPlaneTemplateResource is what KOKControlPlanes are made from.
// +kubebuilder:validation:MinProperties=1
type KOKControlPlaneTemplateResource struct {
	// metadata is added to the metadata of every KOKControlPlane.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec of every KOKControlPlane; version comes from the Cluster's topology.
	// +optional
	Spec KOKControlPlaneTemplateResourceSpec `json:"spec,omitempty,omitzero"`
}

// KOKControlPlaneTemplateResourceSpec is KOKControlPlaneSpec without what a Cluster's topology
// sets (version, replicas) and what only one control plane can have (endpoint, ports, renderings).
type KOKControlPlaneTemplateResourceSpec struct {
	// hosting says where in the host cluster the control planes run.
	// +optional
	Hosting HostingTemplateSpec `json:"hosting,omitempty,omitzero"`

	// imageRepository is the registry and path that component images are pulled from.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ImageRepository string `json:"imageRepository,omitempty"`

	// imagePullSecret is the name of a Secret of type kubernetes.io/dockerconfigjson in the namespace of the control plane,
	// with the password of the registry of images. The pods of the control plane use it, and those of
	// addons a copy in the tenant, which its administrators can read: let the password only pull, and allow
	// the copy by the label kok.cluster.x-k8s.io/for-tenants=true. A change of the name restarts every
	// component. Where the host cluster is another one, the namespace there needs the Secret, too.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ImagePullSecret string `json:"imagePullSecret,omitempty"`

	// kubeAPIServer configures kube-apiserver.
	// +optional
	KubeAPIServer KubeAPIServerSpec `json:"kubeAPIServer,omitempty,omitzero"`

	// kubeControllerManager configures kube-controller-manager.
	// +optional
	KubeControllerManager ReplicatedComponentSpec `json:"kubeControllerManager,omitempty,omitzero"`

	// kubeScheduler configures kube-scheduler.
	// +optional
	KubeScheduler ReplicatedComponentSpec `json:"kubeScheduler,omitempty,omitzero"`

	// etcd configures the two etcd clusters.
	// +optional
	Etcd EtcdSpec `json:"etcd,omitempty,omitzero"`

	// encryptionAtRest configures how the API server encrypts what it writes to etcd.
	// +optional
	EncryptionAtRest EncryptionAtRestSpec `json:"encryptionAtRest,omitempty,omitzero"`

	// addons are installed in the tenants.
	// +optional
	Addons AddonsSpec `json:"addons,omitempty,omitzero"`

	// metrics says who may read the metrics of the components of the control plane.
	// +optional
	Metrics MetricsSpec `json:"metrics,omitempty,omitzero"`

	// patches change generated objects where no field does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Patches []Patch `json:"patches,omitempty"`

	// rollout configures rollouts.
	// +optional
	Rollout RolloutTemplateSpec `json:"rollout,omitempty,omitzero"`

	// keyRotation gives control planes new keys in place of those that they have. One that is made with it rotates its first keys as
	// soon as it is initialized.
	// +optional
	KeyRotation KeyRotationSpec `json:"keyRotation,omitempty,omitzero"`
}

// HostingTemplateSpec is HostingSpec without the ports, which only one control plane can have.
type HostingTemplateSpec struct {
	// kubeconfigRef names the host cluster, if that is not the management cluster: a Secret in the namespace
	// of each control plane. Its Cluster must have spec.controlPlaneEndpoint, or exposure.type be LoadBalancer.
	// +optional
	KubeconfigRef KubeconfigReference `json:"kubeconfigRef,omitempty,omitzero"`

	// networkMode is HostNetwork or PodNetwork.
	// +optional
	NetworkMode NetworkMode `json:"networkMode,omitempty"`

	// exposure says how API servers on the pod network are reached from outside of the host cluster.
	// +optional
	Exposure ExposureTemplateSpec `json:"exposure,omitempty,omitzero"`

	// nodeSelector chooses the host nodes.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are added to every pod of the control plane.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// portPool is the port pool of the control planes.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	PortPool string `json:"portPool,omitempty"`
}

// RolloutTemplateSpec is RolloutSpec without the renderings, whose numbers are of one control plane.
// +kubebuilder:validation:MinProperties=1
type RolloutTemplateSpec struct {
	// after makes every component take the newest rendering once this time has passed.
	// +optional
	After metav1.Time `json:"after,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kokcontrolplanetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// KOKControlPlaneTemplate is the template of KOKControlPlanes that a ClusterClass names.
type KOKControlPlaneTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec KOKControlPlaneTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// KOKControlPlaneTemplateList is a list of KOKControlPlaneTemplates.
type KOKControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KOKControlPlaneTemplate `json:"items"`
}
