package etcd

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// dataKeys are those that rotate and that members with the data have. They trust the same CAs as each other and as clients.
var dataKeys = components.HeldKeys{{Kind: components.EtcdCA, Trusts: true, Uses: true, Members: &components.MemberFiles{
	CAs: func(in *components.Input) []corev1.KeyToPath {
		return []corev1.KeyToPath{
			{Key: pki.TrustedFile(CAFile, in.EtcdCAs.Trusted...), Path: CAFile},
			{Key: pki.TrustedFile(ClientCAFile, in.EtcdCAs.Trusted...), Path: ClientCAFile},
		}
	},
	Used: func(in *components.Input) string { return in.EtcdCAs.Used },
}}}

// eventsKeys are those of members with the events.
var eventsKeys = components.HeldKeys{
	{Kind: components.EtcdCA, Trusts: true, Members: eventsMembers},
	{Kind: components.EtcdEventsCA, Trusts: true, Uses: true, Members: eventsMembers},
}

var eventsMembers = &components.MemberFiles{
	CAs: func(in *components.Input) []corev1.KeyToPath {
		return []corev1.KeyToPath{
			{Key: pki.TrustedFile(CAFile, in.EtcdEventsCAs.Trusted...), Path: CAFile},
			{Key: pki.TrustedFileOfBoth(ClientCAFile, in.EtcdEventsCAs.Trusted, in.EtcdCAs.Trusted), Path: ClientCAFile},
		}
	},
	Used: func(in *components.Input) string { return in.EtcdEventsCAs.Used },
}
