package components

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

const (
	// FrontProxyClient is the leaf that API servers show to extension API servers.
	FrontProxyClient = "front-proxy-client"
	// EtcdClient is the leaf that API servers show to etcd.
	EtcdClient = "etcd-client"
	// EtcdCAs is the file of API servers with the CAs of both etcd clusters.
	EtcdCAs = "etcd-ca.crt"

	// MemberCAs is the file with the CAs that members of etcd trust as each other.
	MemberCAs = "ca.crt"
	// MemberClientCAs is the file with those that they trust as clients.
	MemberClientCAs = "client-ca.crt"
	// MemberClient is the leaf that they show to each other.
	MemberClient = "peer-client"
)

// Kinds of keys that rotate.
var (
	ServiceAccountKey = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.ServiceAccountKeys },
		holders: []keyHolder{
			{component: names.KubeAPIServer, trusts: true, uses: true, arguments: []keyArgument{
				{name: "service-account-key-file", files: serviceAccountPublic},
				{name: "service-account-signing-key-file", files: serviceAccountPrivate},
			}},
			{component: names.KubeControllerManager, uses: true, arguments: []keyArgument{
				{name: "service-account-private-key-file", files: serviceAccountPrivate},
			}},
		},
	}
	EncryptionKey = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.EncryptionKeys },
		holders: []keyHolder{{component: names.KubeAPIServer, trusts: true, uses: true, arguments: []keyArgument{
			{name: "encryption-provider-config", files: encryptionConfiguration},
		}}},
	}
	FrontProxyCA = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.FrontProxyCAs },
		holders: []keyHolder{
			{component: names.KubeAPIServer, trusts: true, uses: true, arguments: []keyArgument{
				{name: "proxy-client-cert-file", files: frontProxyLeaf(".crt"), ofComponent: true},
				{name: "proxy-client-key-file", files: frontProxyLeaf(".key"), ofComponent: true},
				frontProxyTrust,
			}},
			{component: names.KubeControllerManager, trusts: true, arguments: []keyArgument{frontProxyTrust}},
			{component: names.KubeScheduler, trusts: true, arguments: []keyArgument{frontProxyTrust}},
		},
	}
	// EtcdCA is the CA of the data etcd. The events etcd trusts it for its clients, as API servers show both the same certificate.
	EtcdCA = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.EtcdCAs },
		holders: []keyHolder{
			{component: names.EtcdData, trusts: true, uses: true, members: dataMembers},
			{component: names.EtcdEvents, trusts: true, members: eventsMembers},
			{component: names.KubeAPIServer, trusts: true, uses: true, arguments: []keyArgument{
				etcdTrust,
				{name: "etcd-certfile", files: etcdLeaf(".crt"), ofComponent: true},
				{name: "etcd-keyfile", files: etcdLeaf(".key"), ofComponent: true},
			}},
		},
	}
	// EtcdEventsCA is the CA of the events etcd.
	EtcdEventsCA = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.EtcdEventsCAs },
		holders: []keyHolder{
			{component: names.EtcdEvents, trusts: true, uses: true, members: eventsMembers},
			{component: names.KubeAPIServer, trusts: true, arguments: []keyArgument{etcdTrust}},
		},
	}
	keyKinds = []KeyKind{ServiceAccountKey, EncryptionKey, FrontProxyCA, EtcdCA, EtcdEventsCA}

	frontProxyTrust = keyArgument{name: "requestheader-client-ca-file", files: frontProxyCAs}
	etcdTrust       = keyArgument{name: "etcd-cafile", files: etcdCAs, ofComponent: true, shared: true}

	// dataMembers trust the same CAs as each other and as clients.
	dataMembers = &memberFiles{
		cas: func(in *Input) []corev1.KeyToPath {
			return []corev1.KeyToPath{
				{Key: pki.TrustedFile(MemberCAs, in.EtcdCAs.Trusted...), Path: MemberCAs},
				{Key: pki.TrustedFile(MemberClientCAs, in.EtcdCAs.Trusted...), Path: MemberClientCAs},
			}
		},
		used: func(in *Input) string { return in.EtcdCAs.Used },
	}
	eventsMembers = &memberFiles{
		cas: func(in *Input) []corev1.KeyToPath {
			return []corev1.KeyToPath{
				{Key: pki.TrustedFile(MemberCAs, in.EtcdEventsCAs.Trusted...), Path: MemberCAs},
				{Key: pki.TrustedFileOfBoth(MemberClientCAs, in.EtcdEventsCAs.Trusted, in.EtcdCAs.Trusted), Path: MemberClientCAs},
			}
		},
		used: func(in *Input) string { return in.EtcdEventsCAs.Used },
	}
)

// frontProxyCAs is one file with all CAs that are trusted.
func frontProxyCAs(in *Input) []string {
	return []string{pki.TrustedFile(pki.FrontProxyCACert, in.FrontProxyCAs.Trusted...)}
}

// frontProxyLeaf is a file of the leaf that the CA which is in use has signed.
func frontProxyLeaf(ending string) func(*Input) []string {
	return func(in *Input) []string {
		return []string{certificates.LeafName(FrontProxyClient, in.FrontProxyCAs.Used) + ending}
	}
}

func etcdCAs(in *Input) []string {
	return []string{pki.TrustedFileOfBoth(EtcdCAs, in.EtcdCAs.Trusted, in.EtcdEventsCAs.Trusted)}
}

func etcdLeaf(ending string) func(*Input) []string {
	return func(in *Input) []string { return []string{certificates.LeafName(EtcdClient, in.EtcdCAs.Used) + ending} }
}

func serviceAccountPublic(in *Input) []string {
	f := in.ServiceAccountKeys
	if f.isZero() {
		return []string{pki.ServiceAccountPub}
	}
	var files []string
	for _, file := range f.Trusted {
		files = append(files, pki.KeyFile(pki.ServiceAccountPub, file))
	}
	return files
}

func serviceAccountPrivate(in *Input) []string {
	return []string{pki.KeyFile(pki.ServiceAccountKey, in.ServiceAccountKeys.Used)}
}

// encryptionConfiguration is one file with all keys, the one first that writes.
func encryptionConfiguration(in *Input) []string {
	f := in.EncryptionKeys
	if f.isZero() {
		return []string{pki.EncryptionFile()}
	}
	others := slices.DeleteFunc(slices.Clone(f.Trusted), func(file string) bool { return file == f.Used })
	return []string{pki.EncryptionFile(append([]string{f.Used}, others...)...)}
}
