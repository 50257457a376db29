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
	// KubeletClient is the leaf that API servers show to kubelets.
	KubeletClient = "kubelet-client"
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
	// ClusterCA is the CA of API servers, and of all that they talk to but etcd. The controller manager signs by it what others request.
	ClusterCA = KeyKind{
		In: func(in *Input) *KeyFiles { return &in.ClusterCAs },
		holders: []keyHolder{
			{component: names.KubeAPIServer, trusts: true, uses: true, shows: true, arguments: slices.Concat([]keyArgument{
				{name: "client-ca-file", files: clusterCAs},
				{name: "kubelet-certificate-authority", files: clusterCAs, yields: true},
				{name: "kubelet-client-certificate", files: clusterLeaf(KubeletClient, ".crt"), ofComponent: true},
				{name: "kubelet-client-key", files: clusterLeaf(KubeletClient, ".key"), ofComponent: true},
			}, serving)},
			{component: names.KubeControllerManager, trusts: true, uses: true, shows: true, further: clientLeaf, arguments: slices.Concat([]keyArgument{
				{name: "client-ca-file", files: clusterCAs},
				{name: "cluster-signing-cert-file", files: clusterSigner(pki.CACert)},
				{name: "cluster-signing-key-file", files: clusterSigner(pki.CAKey)},
				{name: "root-ca-file", files: clusterCAs},
			}, kubeconfigs, serving)},
			{component: names.KubeScheduler, trusts: true, uses: true, shows: true, further: clientLeaf, arguments: slices.Concat([]keyArgument{
				{name: "client-ca-file", files: clusterCAs},
			}, kubeconfigs, serving)},
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
	keyKinds = []KeyKind{ServiceAccountKey, EncryptionKey, ClusterCA, FrontProxyCA, EtcdCA, EtcdEventsCA}

	// serving is the leaf that a component shows as a server, kubeconfigs lead to API servers.
	serving = []keyArgument{
		{name: "tls-cert-file", files: servingLeaf(".crt"), ofComponent: true},
		{name: "tls-private-key-file", files: servingLeaf(".key"), ofComponent: true},
	}
	kubeconfigs = []keyArgument{
		{name: "authentication-kubeconfig", files: kubeconfigFile, ofComponent: true},
		{name: "authorization-kubeconfig", files: kubeconfigFile, ofComponent: true},
		{name: "kubeconfig", files: kubeconfigFile, ofComponent: true},
	}

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

// clusterCAs is one file with all cluster CAs that are trusted.
func clusterCAs(in *Input) []string {
	return []string{pki.TrustedFile(pki.CACert, in.ClusterCAs.Trusted...)}
}

// clusterSigner is a file of the cluster CA that is in use.
func clusterSigner(file string) func(*Input) []string {
	return func(in *Input) []string { return []string{pki.KeyFile(file, in.ClusterCAs.Used)} }
}

// clusterLeaf is a file of a leaf that the cluster CA in use has signed.
func clusterLeaf(name, ending string) func(*Input) []string {
	return func(in *Input) []string { return []string{certificates.LeafName(name, in.ClusterCAs.Used) + ending} }
}

func servingLeaf(ending string) func(*Input) []string {
	return func(in *Input) []string {
		return []string{certificates.LeafName(ServerCert, in.ClusterCAs.Shown) + ending}
	}
}

// clientLeaf are the files of the leaf that kubeconfigs name, where a rotation made it.
func clientLeaf(in *Input) []string {
	if in.ClusterCAs.Used == "" {
		return nil
	}
	leaf := certificates.LeafName(ClientCert, in.ClusterCAs.Used)
	return []string{leaf + ".crt", leaf + ".key"}
}

func kubeconfigFile(in *Input) []string { return []string{KubeconfigOf(in.ClusterCAs)} }

// KubeconfigOf is the name of the kubeconfig that trusts the CAs, and shows the leaf by the one that is in use.
func KubeconfigOf(cas KeyFiles) string {
	return pki.TrustedFileOfBoth(KubeconfigFile, cas.Trusted, []string{cas.Used})
}

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
