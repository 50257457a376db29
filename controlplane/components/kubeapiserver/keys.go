package kubeapiserver

import (
	"slices"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// keys are those that rotate and that API servers have.
var keys = components.HeldKeys{
	{Kind: components.ServiceAccountKey, Trusts: true, Uses: true, Arguments: []components.KeyArgument{
		{Name: "service-account-key-file", Files: serviceAccountPublic},
		{Name: "service-account-signing-key-file", Files: components.ServiceAccountKey.Used(pki.ServiceAccountKey)},
	}},
	{Kind: components.EncryptionKey, Trusts: true, Uses: true, Arguments: []components.KeyArgument{
		{Name: "encryption-provider-config", Files: encryptionConfiguration},
	}},
	{Kind: components.ClusterCA, Trusts: true, Uses: true, Shows: true, Arguments: slices.Concat([]components.KeyArgument{
		components.ClientCAs,
		{Name: "kubelet-certificate-authority", Files: components.ClusterCA.Trusted(pki.CACert), Yields: true},
		{Name: "kubelet-client-certificate", Files: components.ClusterCA.Leaf(KubeletClientCert, ".crt"), OfComponent: true},
		{Name: "kubelet-client-key", Files: components.ClusterCA.Leaf(KubeletClientCert, ".key"), OfComponent: true},
	}, components.ServingLeaf)},
	{Kind: components.FrontProxyCA, Trusts: true, Uses: true, Arguments: []components.KeyArgument{
		{Name: "proxy-client-cert-file", Files: components.FrontProxyCA.Leaf(FrontProxyClientCert, ".crt"), OfComponent: true},
		{Name: "proxy-client-key-file", Files: components.FrontProxyCA.Leaf(FrontProxyClientCert, ".key"), OfComponent: true},
		components.FrontProxyTrust,
	}},
	{Kind: components.EtcdCA, Trusts: true, Uses: true, Arguments: []components.KeyArgument{
		etcdTrust,
		{Name: "etcd-certfile", Files: components.EtcdCA.Leaf(EtcdClientCert, ".crt"), OfComponent: true},
		{Name: "etcd-keyfile", Files: components.EtcdCA.Leaf(EtcdClientCert, ".key"), OfComponent: true},
	}},
	{Kind: components.EtcdEventsCA, Trusts: true, Arguments: []components.KeyArgument{etcdTrust}},
}

var etcdTrust = components.KeyArgument{Name: "etcd-cafile", Files: etcdCAs, OfComponent: true, Shared: true}

func etcdCAs(in *components.Input) []string {
	return []string{pki.TrustedFileOfBoth(EtcdCAFile, in.EtcdCAs.Trusted, in.EtcdEventsCAs.Trusted)}
}

func serviceAccountPublic(in *components.Input) []string {
	f := in.ServiceAccountKeys
	if f.NeverRotated() {
		return []string{pki.ServiceAccountPub}
	}
	var files []string
	for _, file := range f.Trusted {
		files = append(files, pki.KeyFile(pki.ServiceAccountPub, file))
	}
	return files
}

// encryptionConfiguration is one file with all keys, the one first that writes.
func encryptionConfiguration(in *components.Input) []string {
	f := in.EncryptionKeys
	if f.NeverRotated() {
		return []string{pki.EncryptionFile()}
	}
	others := slices.DeleteFunc(slices.Clone(f.Trusted), func(file string) bool { return file == f.Used })
	return []string{pki.EncryptionFile(append([]string{f.Used}, others...)...)}
}
