package v1alpha1

// SoftwareMode says how software comes onto the machine.
// +kubebuilder:validation:Enum=Preinstalled;Packages;URLs;KOKSoftware
type SoftwareMode string

const (
	// SoftwarePreinstalled means that everything is on the machine.
	SoftwarePreinstalled SoftwareMode = "Preinstalled"
	// SoftwarePackages installs packages of the distribution.
	SoftwarePackages SoftwareMode = "Packages"
	// SoftwareURLs downloads files and checks their SHA-256.
	SoftwareURLs SoftwareMode = "URLs"
	// SoftwareDescribed installs what a KOKSoftware describes.
	SoftwareDescribed SoftwareMode = "KOKSoftware"
)

// DefaultSoftwareByVersion is what byVersion is when neither it nor ref is set.
const DefaultSoftwareByVersion = "software"

// SoftwareSpec says where containerd, kubelet and kok-apiserver-lb come from.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'Packages' ? has(self.packages) : !has(self.packages)",message="packages must be set when mode is Packages, and only then"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Packages' || !has(self.repositories)",message="repositories must be unset unless mode is Packages"
// +kubebuilder:validation:XValidation:rule="self.mode == 'URLs' || self.mode == 'Packages' || !has(self.downloads)",message="downloads must be unset when mode is Preinstalled; set mode to URLs, or to Packages for both"
// +kubebuilder:validation:XValidation:rule="self.mode != 'URLs' || has(self.downloads)",message="downloads must be set when mode is URLs"
// +kubebuilder:validation:XValidation:rule=`self.mode == "KOKSoftware" || self.?ref.?name.orValue("") == "" && self.?byVersion.orValue("") == ""`,message="ref and byVersion must be unset unless mode is KOKSoftware"
// +kubebuilder:validation:XValidation:rule=`self.?ref.?name.orValue("") == "" || self.?byVersion.orValue("") == ""`,message="ref and byVersion both name a KOKSoftware: remove one of them"
type SoftwareSpec struct {
	// mode is Preinstalled, Packages, URLs or KOKSoftware.
	// +optional
	// +kubebuilder:default=Preinstalled
	Mode SoftwareMode `json:"mode,omitempty"`

	// ref names the KOKSoftware, in the namespace of the KOKConfig, that describes the software. Without a name it is as unset.
	// +optional
	Ref SoftwareReference `json:"ref,omitempty,omitzero"`

	// byVersion is the beginning of the name of a KOKSoftware. A dash and the Machine's version complete it: with
	// "software", which an empty or unset one stands for when ref is unset, a Machine of v1.36.3 gets what "software-v1.36.3"
	// describes.
	// +optional
	// +kubebuilder:validation:MaxLength=188
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$`
	ByVersion string `json:"byVersion,omitempty"`

	// packages are installed by the distribution's package manager.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Packages []Package `json:"packages,omitempty"`

	// repositories are added to apt before packages are installed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Repositories []PackageRepository `json:"repositories,omitempty"`

	// downloads are fetched, in order, before preKubeletCommands are run. With mode Packages they are
	// for what is in no package.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Downloads []Download `json:"downloads,omitempty"`
}

// SoftwareReference names a KOKSoftware in the same namespace.
type SoftwareReference struct {
	// name of the KOKSoftware. Templates leave it empty when nobody names one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// Package is one package of the distribution.
type Package struct {
	// name of the package.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9+._-]*$`
	Name string `json:"name,omitempty"`

	// version that is installed; the newest if unset.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9+.~:_-]*$`
	Version string `json:"version,omitempty"`
}

// PackageRepository is a repository of apt.
type PackageRepository struct {
	// name of the file in /etc/apt/sources.list.d, without its ending.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// source is the line of sources.list, for example "deb https://pkgs.k8s.io/core:/stable:/v1.36/deb/ /".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^deb [ -~]+$`
	Source string `json:"source,omitempty"`

	// key is the armored public key that signs the repository.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Key string `json:"key,omitempty"`
}

// Download is a file that is fetched and checked.
type Download struct {
	// path is where the file goes.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`

	// urls are tried in order until one gives the file with the right sha256.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	URLs []string `json:"urls,omitempty"`

	// sha256 of the file, in lower case hexadecimal.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`

	// mode of the file, in octal.
	// +optional
	// +kubebuilder:default="0755"
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^[0-7]{4}$`
	Mode string `json:"mode,omitempty"`
}

// RegistryMirror says where the images of one registry are pulled from.
type RegistryMirror struct {
	// registry is the host, and port if any, in the names of images, for example registry.k8s.io;
	// "_default" for all that have no entry.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Registry string `json:"registry,omitempty"`

	// endpoints are tried in order, then the registry itself.
	// +required
	// +listType=map
	// +listMapKey=url
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Endpoints []RegistryEndpoint `json:"endpoints,omitempty"`

	// exclusive keeps containerd from the registry itself when no endpoint has the image.
	// +optional
	Exclusive *bool `json:"exclusive,omitempty"`
}

// RegistryEndpoint is one mirror of a registry.
type RegistryEndpoint struct {
	// url of the mirror, for example https://mirror.example/k8s.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// caBundle is the certificate authority, as PEM, that the mirror's certificate is checked with; the
	// machine's own if unset.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`

	// overridePath says that the path in url is the root of the registry's API, without /v2 added.
	// +optional
	OverridePath *bool `json:"overridePath,omitempty"`
}
