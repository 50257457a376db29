package v1alpha1

// Encoding is how the content of a file is written down.
// +kubebuilder:validation:Enum=base64;gzip+base64
type Encoding string

const (
	// Base64 is base64.
	Base64 Encoding = "base64"
	// GzipBase64 is gzip and then base64.
	GzipBase64 Encoding = "gzip+base64"
)

// File is a file that is written onto the machine.
//
// +kubebuilder:validation:XValidation:rule="has(self.content) != has(self.contentFrom)",message="exactly one of content and contentFrom must be set"
type File struct {
	// path is absolute.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`

	// owner is a user and a group, for example "root:root".
	// +optional
	// +kubebuilder:default="root:root"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*$`
	Owner string `json:"owner,omitempty"`

	// permissions are octal.
	// +optional
	// +kubebuilder:default="0644"
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^[0-7]{4}$`
	Permissions string `json:"permissions,omitempty"`

	// encoding of the content; unset for plain text.
	// +optional
	Encoding Encoding `json:"encoding,omitempty"`

	// content of the file.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=262144
	Content *string `json:"content,omitempty"`

	// contentFrom is where the content comes from.
	// +optional
	ContentFrom *FileSource `json:"contentFrom,omitempty"`
}

// FileSource is where the content of a file comes from.
type FileSource struct {
	// secret is a Secret in the namespace of the KOKConfig, with the label kok.cluster.x-k8s.io/for-tenants=true.
	// +required
	Secret SecretKey `json:"secret,omitempty,omitzero"`
}

// SecretKey is a key in a Secret.
type SecretKey struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key in the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// User is a user of the machine.
type User struct {
	// name of the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_-]*$`
	Name string `json:"name,omitempty"`

	// groups that the user is in besides its own.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[a-z_][a-z0-9_-]*$`
	Groups []string `json:"groups,omitempty"`

	// shell of the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/[A-Za-z0-9/._-]+$`
	Shell string `json:"shell,omitempty"`

	// sudo is a rule of sudoers without the user's name, for example "ALL=(ALL) NOPASSWD:ALL".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[ -~]+$`
	Sudo string `json:"sudo,omitempty"`

	// sshAuthorizedKeys are the public keys that the user can log in with. Passwords are locked.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=16384
	SSHAuthorizedKeys []string `json:"sshAuthorizedKeys,omitempty"`
}
