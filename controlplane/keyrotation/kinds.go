package keyrotation

import (
	"context"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
)

// rotatingKind is a kind of key that rotates.
type rotatingKind struct {
	// asked is the name of the kind in spec, material its name in key material and in messages.
	asked    controlplanev1.KeyKind
	material string
	// pods says which pods have keys of the kind, and how their specs show which.
	pods *components.KeyKind
	// data are the data keys of the kind's rotation in the host cluster's copy.
	data string
	// seen adds what pods do not show: what needs the former key, or what does not have the keys of the phase. It is called in the phases
	// seenIn, and uses a probe of the kind probedAs. It is nil for a kind of which pods show all.
	seen     func(*run, context.Context, *rotation.State, look) error
	seenIn   []rotation.Phase
	probedAs string
}

// look is how a kind looks for what pods do not show.
type look struct {
	key probe.Key
	// due is true when the next step waits for this look alone: a person asks for the end and no other kind holds it up, or no pod has
	// the former key any more.
	due bool
}

// rotatingKinds are all kinds, in the order of messages. Whether a look is due depends on what was seen of the kinds before it, and never on
// those after it: two kinds that look when it is due do so one after the other.
var rotatingKinds = []rotatingKind{
	{
		asked: controlplanev1.ServiceAccountKeyKind, material: pki.ServiceAccount, pods: components.ServiceAccountKey, data: "sa.rotation",
		seen: (*run).addTokens, seenIn: []rotation.Phase{rotation.Prepared}, probedAs: formerKeyProbeKind,
	},
	{
		asked: controlplanev1.EncryptionKeyKind, material: pki.Encryption, pods: components.EncryptionKey, data: "encryption.rotation",
		seen: (*run).addObjects, seenIn: []rotation.Phase{rotation.Prepared, rotation.Dropping}, probedAs: rewritingProbeKind,
	},
	{
		asked: controlplanev1.ClusterCAKind, material: string(pki.ClusterCA), pods: components.ClusterCA, data: "ca.rotation",
		seen:     (*run).addClusterCAs,
		seenIn:   []rotation.Phase{rotation.Trusting, rotation.Using, rotation.Prepared, rotation.Dropping},
		probedAs: clusterCAProbeKind,
	},
	{
		asked: controlplanev1.FrontProxyCAKind, material: string(pki.FrontProxyCA), pods: components.FrontProxyCA, data: "front-proxy-ca.rotation",
		seen: addPublishedCAs(pki.FrontProxyCA, tenant.PublishedFrontProxyCAs), seenIn: []rotation.Phase{rotation.Trusting, rotation.Dropping}, probedAs: frontProxyProbeKind,
	},
	{asked: controlplanev1.EtcdCAKind, material: string(pki.EtcdCA), pods: components.EtcdCA, data: "etcd-ca.rotation"},
	{asked: controlplanev1.EtcdEventsCAKind, material: string(pki.EtcdEventsCA), pods: components.EtcdEventsCA, data: "etcd-events-ca.rotation"},
}

// SetFiles makes an input have the files of all kinds of keys, as pods are to have them now.
func SetFiles(in *components.Input, keys *pki.KeyMaterial) {
	for i := range rotatingKinds {
		*rotatingKinds[i].pods.In(in) = components.KeyFiles(keys.Files(rotatingKinds[i].material))
	}
}
