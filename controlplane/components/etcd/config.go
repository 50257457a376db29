package etcd

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/space"
)

// Files in CertsDirectory. PeerClient has no SAN:
// docs/decisions/certificates.md#peers-dial-with-a-certificate-without-san.
const (
	CAFile        = components.MemberCAs
	ClientCAFile  = "client-ca.crt"
	PeerClient    = components.MemberClient
	certSuffix    = ".crt"
	keySuffix     = ".key"
	newCluster    = "new"
	existing      = "existing"
	dataDirectory = "/var/lib/etcd/data"
)

// configFile is etcd's configuration file; see https://etcd.io/docs/v3.6/op-guide/configuration/.
type configFile struct {
	Name                     string        `json:"name"`
	DataDir                  string        `json:"data-dir"`
	ListenClientURLs         string        `json:"listen-client-urls"`
	ListenPeerURLs           string        `json:"listen-peer-urls"`
	ListenMetricsURLs        string        `json:"listen-metrics-urls"`
	AdvertiseClientURLs      string        `json:"advertise-client-urls"`
	InitialAdvertisePeerURLs string        `json:"initial-advertise-peer-urls"`
	InitialCluster           string        `json:"initial-cluster"`
	InitialClusterState      string        `json:"initial-cluster-state"`
	InitialClusterToken      string        `json:"initial-cluster-token"`
	ClientTransportSecurity  transportTLS  `json:"client-transport-security"`
	PeerTransportSecurity    transportTLS  `json:"peer-transport-security"`
	QuotaBackendBytes        int64         `json:"quota-backend-bytes"`
	StrictReconfigCheck      bool          `json:"strict-reconfig-check"`
	FeatureGates             string        `json:"feature-gates"`
	WatchProgressNotify      time.Duration `json:"watch-progress-notify-interval"`
	DefragThreshold          int64         `json:"bootstrap-defrag-threshold-megabytes,omitempty"`
	Logger                   string        `json:"logger"`
	LogLevel                 string        `json:"log-level"`
	LogOutputs               []string      `json:"log-outputs"`
}

type transportTLS struct {
	CertFile       string `json:"cert-file"`
	KeyFile        string `json:"key-file"`
	ClientCertFile string `json:"client-cert-file,omitempty"`
	ClientKeyFile  string `json:"client-key-file,omitempty"`
	TrustedCAFile  string `json:"trusted-ca-file"`
	ClientCertAuth bool   `json:"client-cert-auth"`
}

// Membership is what configuration files depend on beside a spec: how far the cluster has come.
type Membership struct {
	// Bootstrapped is true once every first member of the cluster has joined.
	Bootstrapped bool
	// Listed are the members that etcd lists. Joining is the one of them, if any, that was added and has
	// not started yet.
	Listed  []string
	Joining string
	// Founded tells one founding of the cluster from another; empty for the first.
	Founded string
	// Volume is the size of volumes in the StatefulSet, with which they began; nil before there is one.
	Volume *resource.Quantity
}

// Config holds one configuration file a member, named after its pod. It is no part of a rendering:
// membership changes it, and pods do not restart for it.
//
// Until every member has joined, each file names all members. Afterwards it names its own member
// alone, so that a member without data ends. The file of an added member names all members in etcd's
// list, until that member has started once. See
// docs/decisions/etcd.md#a-configuration-file-for-each-member.
func (c Cluster) Config(in *components.Input, m Membership) (*corev1.ConfigMap, error) {
	ports := c.Ports(in)
	files := map[string]string{}
	for _, member := range c.Members(in) {
		state, known := newCluster, c.Wanted(in)
		switch {
		case m.Bootstrapped && member == m.Joining:
			state, known = existing, m.Listed
		case m.Bootstrapped:
			state, known = existing, []string{member}
		}
		address := in.Addresses[member]
		raw, err := yaml.Marshal(configFile{
			Name:                     member,
			DataDir:                  dataDirectory,
			ListenClientURLs:         url(anyAddress(address), ports.Client),
			ListenPeerURLs:           url(anyAddress(address), ports.Peer),
			ListenMetricsURLs:        "http://" + net.JoinHostPort(in.ProbeAddress(anyAddress(address)), strconv.Itoa(int(ports.Metrics))),
			AdvertiseClientURLs:      c.ClientURL(in, member),
			InitialAdvertisePeerURLs: c.PeerURL(in, member),
			InitialCluster:           c.peers(in, known),
			InitialClusterState:      state,
			InitialClusterToken:      in.Cluster.Namespace + "/" + in.Cluster.Name + "/" + c.Component + m.Founded,
			ClientTransportSecurity: transportTLS{
				CertFile: path(member + certSuffix), KeyFile: path(member + keySuffix),
				TrustedCAFile: path(ClientCAFile), ClientCertAuth: true,
			},
			PeerTransportSecurity: transportTLS{
				CertFile: path(member + certSuffix), KeyFile: path(member + keySuffix),
				ClientCertFile: path(PeerClient + certSuffix), ClientKeyFile: path(PeerClient + keySuffix),
				TrustedCAFile: path(CAFile), ClientCertAuth: true,
			},
			QuotaBackendBytes:   c.Spec(in).QuotaBackendSize.Value(),
			StrictReconfigCheck: true,
			FeatureGates:        "InitialCorruptCheck=true",
			WatchProgressNotify: 5 * time.Second,
			DefragThreshold:     c.DefragmentsFrom(in, m.Volume) >> 20,
			Logger:              "zap",
			LogLevel:            "info",
			LogOutputs:          []string{"stderr"},
		})
		if err != nil {
			return nil, fmt.Errorf("render the configuration of etcd member %s: %w", member, err)
		}
		files[member+".yaml"] = string(raw)
	}
	return components.ConfigMap(in, c.Component, files), nil
}

// DefragmentsFrom is a number of bytes: a member with that much in free pages writes its database anew when it starts. It is zero where
// the volume may have no room for a copy of the database, for etcd would not start then. volume is the size with which volumes began, if
// that is known: whether they grew since is not.
func (c Cluster) DefragmentsFrom(in *components.Input, volume *resource.Quantity) int64 {
	spec := c.Spec(in)
	size, quota := spec.Storage.Size, spec.QuotaBackendSize
	if size != nil && volume != nil && volume.Cmp(*size) < 0 {
		size = volume
	}
	if size == nil || quota == nil || size.Value() < 2*quota.Value()+space.Besides {
		return 0
	}
	return space.MuchFree
}

// VolumeSize is the size of volumes in a StatefulSet; nil where it has none.
func VolumeSize(set *appsv1.StatefulSet) *resource.Quantity {
	for _, claim := range set.Spec.VolumeClaimTemplates {
		if claim.Name != ownVolume {
			return claim.Spec.Resources.Requests.Storage()
		}
	}
	return nil
}

// peers is how etcd writes down members with their addresses.
func (c Cluster) peers(in *components.Input, members []string) string {
	peers := make([]string, 0, len(members))
	for _, member := range members {
		peers = append(peers, member+"="+c.PeerURL(in, member))
	}
	return strings.Join(peers, ",")
}

// File is what a member's configuration file says.
type File struct {
	// Bootstrapped is true if the cluster was bootstrapped when the file was written. Listed are the members that etcd listed at that time.
	Bootstrapped bool
	Listed       []string
	token        string
}

// Read reads a member's configuration file.
func Read(file string) (File, error) {
	var config configFile
	if err := yaml.Unmarshal([]byte(file), &config); err != nil {
		return File{}, fmt.Errorf("read the configuration of an etcd member: %w", err)
	}
	read := File{Bootstrapped: config.InitialClusterState == existing, token: config.InitialClusterToken}
	for peer := range strings.SplitSeq(config.InitialCluster, ",") {
		name, _, _ := strings.Cut(peer, "=")
		read.Listed = append(read.Listed, name)
	}
	return read, nil
}

// Open reports whether the member may start without data: the file names others, or the cluster is being founded.
func (f File) Open() bool { return !f.Bootstrapped || f.Joining() }

// Joining reports whether the member may join a cluster that was bootstrapped.
func (f File) Joining() bool { return f.Bootstrapped && len(f.Listed) > 1 }

// FoundedAs reports whether the file is of this founding of its cluster, as Membership names it.
func (f File) FoundedAs(founded string) bool { return strings.HasSuffix(f.token, founded) }

func path(file string) string { return CertsDirectory + "/" + file }

func url(host string, port int32) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// anyAddress is the wildcard address of the family of the given one.
func anyAddress(address string) string {
	if strings.Contains(address, ":") {
		return "::"
	}
	return "0.0.0.0"
}
