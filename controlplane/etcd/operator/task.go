package operator

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
)

// Task is what a reconcile hands over: an etcd cluster, how it should be, and what was seen of it. Nobody changes it
// any more.
type Task struct {
	// ControlPlane is what the cluster belongs to, and what Events are about: namespace, name and UID.
	ControlPlane *controlplanev1.KOKControlPlane
	Cluster      etcdcomponent.Cluster
	Host         *hostclusters.Host
	// Keys need only the CA of the cluster.
	Keys *pki.KeyMaterial
	// Input is what the cluster is rendered from.
	Input components.Input
	// PodsEnd is the ordinal after that of the last pod that the StatefulSet should have now; it follows etcd's own list.
	PodsEnd int
	// Bootstrapped is true once every first member has joined. Before, the members are not changed.
	Bootstrapped bool
	// Seeded is true before that, where the first member restores a snapshot: others are added to it later.
	Seeded bool
	// Founded tells one founding of the cluster from another; empty for the first.
	Founded string
	// Only names the one member that may run while etcd is founded anew; it is empty when all may.
	Only string
	// Settled is passed on to background.Task: the first bad reports about a settled control plane do not count.
	Settled bool
	// RollingOut is true while a pod may not be as the StatefulSet wants it.
	RollingOut bool
	// AllReady is true when there are as many pods as there should be, and each is ready.
	AllReady bool
	// SnapshotKeepers are the members that the manager knows to keep a verified snapshot on their own volumes, in order. The manager reads that
	// from the status of KOKEtcdSnapshots, so a lost status also leaves the list empty.
	SnapshotKeepers []string
	// Cordoned are members on cordoned nodes, and those whose pods still say that they are, as caches have it.
	Cordoned []string
	// Seen is what else the reconcile saw that may change the outcome, such as a number of ready pods.
	Seen string
}

func (t *Task) key() background.Key {
	return background.Key{Object: client.ObjectKeyFromObject(t.ControlPlane), Kind: t.Cluster.Component}
}

// Identity changes with the members, with their founding, with the CAs that vouch for members and for their clients, and with the
// connection to the host cluster. What runs for the former identity ends then.
func (t *Task) Identity() string {
	identity := &strings.Builder{}
	fmt.Fprintln(identity, t.Host.Identity, t.Founded)
	fmt.Fprintln(identity, certificates.ClientIdentity(t.Keys, t.Cluster.Signer))
	addresses := t.clientURLs()
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		fmt.Fprintf(identity, "%s=%s\n", name, addresses[name])
	}
	return identity.String()
}

// Prompt differs when the reconcile saw, or wants, something new.
func (t *Task) Prompt() string {
	return fmt.Sprintf("%d members in %d pods: bootstrapped %t, rolling out %t, all ready %t, cordoned %v, snapshots on %v, %s",
		t.desiredMembers(), t.PodsEnd, t.Bootstrapped, t.RollingOut, t.AllReady, t.Cordoned, t.SnapshotKeepers, t.Seen)
}

// desiredMembers is the number of members that the spec asks for.
func (t *Task) desiredMembers() int { return len(t.Cluster.Wanted(&t.Input)) }

func (t *Task) ordinal(member string) int { return t.Cluster.Ordinal(&t.Input, member) }

// clientURLs are where members are reached, by name: all that exist, come or go, and have an address.
func (t *Task) clientURLs() map[string]string {
	urls := map[string]string{}
	for _, member := range t.Cluster.Members(&t.Input) {
		if t.Input.Addresses[member] != "" && (t.Only == "" || t.Only == member) {
			urls[member] = t.Cluster.ClientURL(&t.Input, member)
		}
	}
	return urls
}

// Reach returns how to reach each member that has an address, and the TLS configuration of a client. It needs Cluster, Host, Keys and
// Input.
func (t *Task) Reach(clock clock.PassiveClock) (map[string]etcd.Address, *tls.Config, error) {
	config, err := certificates.Issuer{Keys: t.Keys, Clock: clock}.ClientTLS(t.Cluster.Signer, names.ManagerUser, nil, "")
	return t.addresses(), config, err
}

// addresses are how members are reached, by clients and by each other.
func (t *Task) addresses() map[string]etcd.Address {
	addresses := map[string]etcd.Address{}
	for member, url := range t.clientURLs() {
		addresses[member] = etcd.Address{Client: url, Peer: t.Cluster.PeerURL(&t.Input, member), Dial: t.dial(member)}
	}
	return addresses
}
