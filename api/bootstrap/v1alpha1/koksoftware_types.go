package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KOKSoftwareSpec describes what a machine needs to become a worker, for each distribution and architecture. Only its
// mirrors can be changed, because machines may have been made from the rest: describe other software under another name.
//
// +kubebuilder:validation:XValidation:rule="self.components == oldSelf.components",message="components cannot change: make a KOKSoftware with another name, and name that in the KOKConfigTemplate"
// +kubebuilder:validation:XValidation:rule="self.installers == oldSelf.installers",message="installers cannot change: make a KOKSoftware with another name, and name that in the KOKConfigTemplate"
// +kubebuilder:validation:XValidation:rule="has(self.kernel) == has(oldSelf.kernel) && (!has(self.kernel) || self.kernel == oldSelf.kernel)",message="kernel cannot change: make a KOKSoftware with another name, and name that in the KOKConfigTemplate"
type KOKSoftwareSpec struct {
	// installers say for each architecture where cloud-init gets the program kok-software from. That program installs
	// everything else.
	// +required
	// +listType=map
	// +listMapKey=architecture
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Installers []SoftwareInstaller `json:"installers,omitempty"`

	// mirrors take the place of the servers in URLs and images. The first mirror whose prefix fits counts.
	// +optional
	// +listType=map
	// +listMapKey=prefix
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Mirrors []SoftwareMirror `json:"mirrors,omitempty"`

	// components are what is installed, each after those that its field "after" names.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Components []SoftwareComponent `json:"components,omitempty"`

	// kernel is what the components need of the kernel.
	// +optional
	Kernel SoftwareKernel `json:"kernel,omitempty,omitzero"`
}

// Architecture is an architecture as Go and OCI name it.
// +kubebuilder:validation:Enum=amd64;arm64
type Architecture string

// SoftwareInstaller is the program kok-software for one architecture.
type SoftwareInstaller struct {
	// architecture of the program.
	// +required
	Architecture Architecture `json:"architecture,omitempty"`

	// urls are tried in order until one gives the program with the right sha256.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	URLs []string `json:"urls,omitempty"`

	// sha256 of the program, in lower case hexadecimal.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
}

// SoftwareMirror says where the files of one server are downloaded from.
type SoftwareMirror struct {
	// prefix is the beginning of URLs, or of references of images, that the mirror stands for, for example
	// https://dl.k8s.io/ or registry.example.com/.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Prefix string `json:"prefix,omitempty"`

	// endpoints take the place of the prefix, and are tried in order.
	// +required
	// +listType=map
	// +listMapKey=url
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Endpoints []SoftwareEndpoint `json:"endpoints,omitempty"`

	// exclusive keeps machines from the server itself when no endpoint has the file.
	// +optional
	Exclusive *bool `json:"exclusive,omitempty"`
}

// SoftwareEndpoint is one place of a mirror.
type SoftwareEndpoint struct {
	// url takes the place of the mirror's prefix, for example https://mirror.example.com/kubernetes/. For images it is the
	// address of the registry.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// caBundle is the certificate authority, as PEM, that the endpoint's certificate is checked with. Unset, it is checked
	// with those that the machine trusts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`

	// secretRef names a Secret of the type kubernetes.io/basic-auth, in the namespace of the KOKSoftware, with the username
	// and the password for the endpoint, and with the label kok.cluster.x-k8s.io/for-tenants=true.
	// +optional
	SecretRef SecretReference `json:"secretRef,omitempty,omitzero"`
}

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// SoftwareComponent is one thing that is installed and changed as a whole, such as containerd.
//
// +kubebuilder:validation:XValidation:rule="!has(self.after) || !(self.name in self.after)",message="a component cannot come after itself"
type SoftwareComponent struct {
	// name of the component.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// after names components that are installed, and checked, before this one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	After []string `json:"after,omitempty"`

	// variants say what is installed on which machines. The first variant that matches counts. A machine that no variant
	// matches cannot be bootstrapped.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Variants []SoftwareVariant `json:"variants,omitempty"`

	// unit is the systemd unit that runs the component. It is enabled, and started before the check. The units of kubelet
	// and kok-apiserver-lb come with the bootstrap data: do not name them here.
	// +optional
	Unit SoftwareUnit `json:"unit,omitempty,omitzero"`

	// files are written before the unit is started.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Files []SoftwareFile `json:"files,omitempty"`

	// check shows whether the component works. A component with a unit is checked once it was started, others at the end of
	// the bootstrap. If the check fails, the version before is put back.
	// +optional
	Check SoftwareCheck `json:"check,omitempty,omitzero"`
}

// SoftwareVariant is what is installed on the machines that it matches: an archive or packages.
//
// +kubebuilder:validation:XValidation:rule="has(self.archive) != has(self.packages)",message="exactly one of archive and packages must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.repositories) || has(self.packages)",message="repositories are where packages come from: set packages, too"
type SoftwareVariant struct {
	// match says which machines the variant is for; all machines if unset.
	// +optional
	Match SoftwareMatch `json:"match,omitempty,omitzero"`

	// archive is a file, an archive or an OCI artifact.
	// +optional
	Archive SoftwareArchive `json:"archive,omitempty,omitzero"`

	// packages are installed by the distribution's package manager.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Packages []Package `json:"packages,omitempty"`

	// repositories are added to apt before packages are installed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Repositories []PackageRepository `json:"repositories,omitempty"`
}

// SoftwareMatch says which machines a variant is for. A field that is unset matches every machine.
// +kubebuilder:validation:MinProperties=1
type SoftwareMatch struct {
	// os are distributions, as ID in /etc/os-release has them, for example debian.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	OS []string `json:"os,omitempty"`

	// osVersions are versions of distributions, as VERSION_ID in /etc/os-release has them, for example "12".
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	OSVersions []string `json:"osVersions,omitempty"`

	// architectures of machines.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Architectures []Architecture `json:"architectures,omitempty"`

	// version is the Kubernetes version of the Machine, for example v1.36.3.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// SoftwareArchive is something that is downloaded, checked, and unpacked.
//
// +kubebuilder:validation:XValidation:rule="has(self.urls) != has(self.image)",message="exactly one of urls and image must be set"
type SoftwareArchive struct {
	// urls are tried in order until one gives the file with the right sha256.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	URLs []string `json:"urls,omitempty"`

	// image is an OCI artifact, whose layer with the right sha256 is the file, for example
	// registry.example.com/software/kubelet:v1.36.3.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// sha256 of the file, in lower case hexadecimal.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`

	// unpack says which of its files go where.
	// +required
	// +listType=map
	// +listMapKey=to
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Unpack []SoftwareUnpack `json:"unpack,omitempty"`
}

// SoftwareUnpack is a file, or a folder, of an archive.
type SoftwareUnpack struct {
	// from is a path in a tar archive, which may be compressed by gzip or zstd. It is a file or, with a slash at its end, a
	// folder of which all files are taken. Unset, the download itself is the file.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	From string `json:"from,omitempty"`

	// to is the absolute path on the machine: of the file or, with a slash at its end, of the folder.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=512
	To string `json:"to,omitempty"`

	// mode of the file, in octal. Unset, files of archives have the mode that they have there, and others 0755.
	// +optional
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^0[0-7]{3}$`
	Mode string `json:"mode,omitempty"`
}

// SoftwareUnit is a unit of systemd.
type SoftwareUnit struct {
	// name of the unit, for example containerd.service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:_.@-]+\.(service|socket|timer|mount)$`
	Name string `json:"name,omitempty"`

	// content of the unit's file. Unset, a package brings the unit.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Content string `json:"content,omitempty"`
}

// SoftwareFile is a file that belongs to a component.
type SoftwareFile struct {
	// path is absolute.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`

	// content of the file.
	// +required
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=65536
	Content *string `json:"content,omitempty"`

	// mode of the file, in octal.
	// +optional
	// +kubebuilder:default="0644"
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^0[0-7]{3}$`
	Mode string `json:"mode,omitempty"`
}

// SoftwareCheckType says how kok-software checks a component.
// +kubebuilder:validation:Enum=CRI;HTTP;Unit
type SoftwareCheckType string

const (
	// CheckCRI reads the state of the container runtime at /run/containerd/containerd.sock, by CRI.
	CheckCRI SoftwareCheckType = "CRI"
	// CheckHTTP wants an answer with a status from 200 to 299.
	CheckHTTP SoftwareCheckType = "HTTP"
	// CheckUnit wants the unit to be active.
	CheckUnit SoftwareCheckType = "Unit"
)

// SoftwareCheck shows whether a component works.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'HTTP') == has(self.url)",message="url must be set when type is HTTP, and only then"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Unit') == has(self.unit)",message="unit must be set when type is Unit, and only then"
// +kubebuilder:validation:XValidation:rule="self.type != 'Unit' || self.timeoutSeconds >= 5",message="timeoutSeconds must be at least 5 when type is Unit: a unit must be active for some seconds"
type SoftwareCheck struct {
	// type is CRI, HTTP or Unit.
	// +required
	Type SoftwareCheckType `json:"type,omitempty"`

	// url is requested when type is HTTP. It is one of the machine itself, for example http://127.0.0.1:10248/healthz.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^http://(127\.0\.0\.1|localhost|\[::1\]):[0-9]{1,5}/`
	URL string `json:"url,omitempty"`

	// unit must be active when type is Unit, for example kubelet.service.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:_.@-]+\.(service|socket|timer|mount)$`
	Unit string `json:"unit,omitempty"`

	// timeoutSeconds is how long the component may take until the check succeeds.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=900
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// SoftwareKernel is set in the kernel, at once and at each boot.
// +kubebuilder:validation:MinProperties=1
type SoftwareKernel struct {
	// modules are loaded, for example br_netfilter. One that is built in counts as loaded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_-]+$`
	Modules []string `json:"modules,omitempty"`

	// sysctls are set, by their names with dots, for example net.ipv4.ip_forward.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	Sysctls map[string]string `json:"sysctls,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=koksoftwares,scope=Namespaced,categories=cluster-api,singular=koksoftware
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels={"clusterctl.cluster.x-k8s.io/move="}
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.spec.components[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// KOKSoftware describes the software of machines as data. A KOKConfig names it.
type KOKSoftware struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the description.
	// +required
	Spec KOKSoftwareSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// KOKSoftwareList is a list of KOKSoftware.
type KOKSoftwareList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KOKSoftware `json:"items"`
}
