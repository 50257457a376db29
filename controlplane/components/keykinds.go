package components

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

const (
	// MemberCAs is the file with the CAs that members of etcd trust as each other.
	MemberCAs = "ca.crt"
	// MemberClient is the leaf that they show to each other.
	MemberClient = "peer-client"
)

// KeyKind is a kind of key that rotates. Every file that a rotation made has a name of its own.
type KeyKind struct {
	// In is the part of an input that has the files.
	In func(*Input) *KeyFiles
}

// Kinds of keys that rotate.
var (
	ServiceAccountKey = &KeyKind{In: func(in *Input) *KeyFiles { return &in.ServiceAccountKeys }}
	EncryptionKey     = &KeyKind{In: func(in *Input) *KeyFiles { return &in.EncryptionKeys }}
	// ClusterCA is the CA of API servers, and of all that they talk to but etcd. The controller manager signs by it what others request.
	ClusterCA    = &KeyKind{In: func(in *Input) *KeyFiles { return &in.ClusterCAs }}
	FrontProxyCA = &KeyKind{In: func(in *Input) *KeyFiles { return &in.FrontProxyCAs }}
	// EtcdCA is the CA of the data etcd. The events etcd trusts it for its clients, as API servers show both the same certificate.
	EtcdCA = &KeyKind{In: func(in *Input) *KeyFiles { return &in.EtcdCAs }}
	// EtcdEventsCA is the CA of the events etcd.
	EtcdEventsCA = &KeyKind{In: func(in *Input) *KeyFiles { return &in.EtcdEventsCAs }}

	keyKinds = []*KeyKind{ServiceAccountKey, EncryptionKey, ClusterCA, FrontProxyCA, EtcdCA, EtcdEventsCA}
)

// Trusted is one file with the public parts of all keys that are trusted.
func (k *KeyKind) Trusted(file string) func(*Input) []string {
	return func(in *Input) []string { return []string{pki.TrustedFile(file, k.In(in).Trusted...)} }
}

// Used is a file of the key that is in use.
func (k *KeyKind) Used(file string) func(*Input) []string {
	return func(in *Input) []string { return []string{pki.KeyFile(file, k.In(in).Used)} }
}

// Leaf is a file of a leaf that the CA in use has signed.
func (k *KeyKind) Leaf(name, ending string) func(*Input) []string {
	return func(in *Input) []string { return []string{certificates.LeafName(name, k.In(in).Used) + ending} }
}

// Arguments that several components have.
var (
	// ClientCAs is the file with the CAs that the component trusts its clients by.
	ClientCAs = KeyArgument{Name: "client-ca-file", Files: ClusterCA.Trusted(pki.CACert)}
	// ServingLeaf is the certificate that the component shows as a server, and its key.
	ServingLeaf = []KeyArgument{
		{Name: "tls-cert-file", Files: servingLeaf(".crt"), OfComponent: true},
		{Name: "tls-private-key-file", Files: servingLeaf(".key"), OfComponent: true},
	}
	// FrontProxyTrust is the file with the CAs of front proxies: who shows a certificate of theirs may say on whose behalf it asks.
	FrontProxyTrust = KeyArgument{Name: "requestheader-client-ca-file", Files: FrontProxyCA.Trusted(pki.FrontProxyCACert)}
)

func servingLeaf(ending string) func(*Input) []string {
	return func(in *Input) []string {
		return []string{certificates.LeafName(ServerCert, in.ClusterCAs.Shown) + ending}
	}
}
