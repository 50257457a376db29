//go:build envtest

package controllers

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/keyrotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/secrets"
)

// phasePatience bounds the start of a member.
const phasePatience = 2 * time.Minute

// rotatedEtcd is an etcd of three real members, each of which has the files of a phase of the rotation of both CAs.
type rotatedEtcd struct {
	t         *testing.T
	cluster   etcdcomponent.Cluster
	directory string
	input     components.Input
	store     *pki.Store
	host      client.Client
	keys      *pki.KeyMaterial
	members   map[string]*process
	written   int
}

// etcdPhaseFiles are what programs of a phase have: files of members, by member, and how API servers and the manager dial.
type etcdPhaseFiles struct {
	phase              rotation.Phase
	members            map[string]map[string][]byte
	apiServer, manager *tls.Config
}

func (e *rotatedEtcd) issuer() certificates.Issuer {
	return certificates.Issuer{Keys: e.keys, Clock: clock.RealClock{}}
}

func newRotatedEtcd(t *testing.T, cluster etcdcomponent.Cluster) *rotatedEtcd {
	t.Helper()
	host := fake.NewClientBuilder().Build()
	access := secrets.Access{Cached: host, Live: host, Writer: host}
	e := &rotatedEtcd{
		t: t, cluster: cluster, directory: t.TempDir(), host: host, store: &pki.Store{Management: access, Host: access}, members: map[string]*process{},
		input: components.Input{
			Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, Version: "v1.36.3", Ports: ports.Of(39000), Addresses: map[string]string{},
			Network: components.Network{ServiceCIDRs: []string{"10.96.0.0/12"}, DNSDomain: "cluster.local"},
		},
	}
	for _, spec := range []*controlplanev1.EtcdClusterSpec{&e.input.Spec.Etcd.Data, &e.input.Spec.Etcd.Events.EtcdClusterSpec} {
		*spec = controlplanev1.EtcdClusterSpec{Replicas: ptr.To[int32](3), QuotaBackendSize: ptr.To(resource.MustParse("2Gi"))}
		spec.Storage.Size = ptr.To(resource.MustParse("8Gi"))
	}
	network := fmt.Sprintf("127.%d.%d.", 77+os.Getpid()%150, realEtcds.Add(1))
	e.input.Addresses[names.Object("blue", names.KubeAPIServer)] = network + "100"
	for i, member := range append(etcdcomponent.Data.Members(&e.input), etcdcomponent.Events.Members(&e.input)...) {
		e.input.Addresses[member] = fmt.Sprintf("%s%d", network, i+1)
	}
	t.Cleanup(func() {
		for _, member := range e.members {
			member.kill()
		}
	})
	e.ensure()
	return e
}

func (e *rotatedEtcd) ensure() {
	e.t.Helper()
	var err error
	e.keys, err = e.store.Ensure(e.t.Context(), pki.Request{Cluster: e.input.Cluster, UsedBy: func(context.Context) (string, error) { return "", nil }})
	if err != nil {
		e.t.Fatal(err)
	}
}

// rotate brings both CAs to a phase, and returns what programs have in it.
func (e *rotatedEtcd) rotate(phase rotation.Phase) etcdPhaseFiles {
	e.t.Helper()
	for _, kind := range []pki.Signer{pki.EtcdCA, pki.EtcdEventsCA} {
		if phase == "" {
			continue
		}
		if err := e.store.Rotate(e.t.Context(), e.input.Cluster, e.keys, string(kind), rotation.Record{Asked: "2026-01-02T03:04:05Z", Phase: phase}); err != nil {
			e.t.Fatal(err)
		}
	}
	e.ensure()
	keyrotation.SetFiles(&e.input, e.keys)
	secrets, err := Certificates(&e.input, e.keys, "", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, secret := range secrets {
		if _, err := e.issuer().EnsureLeaves(e.t.Context(), e.store.Host, secret); err != nil {
			e.t.Fatal(err)
		}
	}
	has := etcdPhaseFiles{phase: phase, members: map[string]map[string][]byte{}}
	rendered, err := e.cluster.AsComponent().Rendered(&e.input)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, object := range rendered {
		if template := patches.PodTemplate(object); template != nil {
			for _, member := range e.cluster.Members(&e.input) {
				if has.members[member], err = memberFiles(&corev1.Pod{Spec: template.Spec}, e.secret(e.cluster.Component)); err != nil {
					e.t.Fatal(err)
				}
			}
		}
	}
	if has.manager, err = e.issuer().ClientTLS(e.cluster.Signer, names.ManagerUser, nil, ""); err != nil {
		e.t.Fatal(err)
	}
	server, cas := e.secret(names.KubeAPIServer), pki.TrustedFileOfBoth(kubeapiserver.EtcdCAFile, e.input.EtcdCAs.Trusted, e.input.EtcdEventsCAs.Trusted)
	leaf := certificates.LeafName(kubeapiserver.EtcdClientCert, e.input.EtcdCAs.Used)
	has.apiServer = clientOf(e.t, server[cas], server[leaf+".crt"], server[leaf+".key"])
	return has
}

func (e *rotatedEtcd) secret(component string) map[string][]byte {
	e.t.Helper()
	secret := &corev1.Secret{}
	if err := e.host.Get(e.t.Context(), client.ObjectKey{Namespace: "team", Name: names.Certs("blue", component)}, secret); err != nil {
		e.t.Fatal(err)
	}
	return secret.Data
}

func clientOf(t *testing.T, cas, certificate, key []byte) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil || !roots.AppendCertsFromPEM(cas) {
		t.Fatalf("there is no certificate, or no CA: %v", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}
}

// start runs a member with the files of a phase, or runs it anew.
func (e *rotatedEtcd) start(member string, has etcdPhaseFiles) {
	e.t.Helper()
	if running := e.members[member]; running != nil {
		running.stop()
	}
	home, address := filepath.Join(e.directory, member), e.input.Addresses[member]
	if err := os.MkdirAll(filepath.Join(home, "pki"), 0o700); err != nil {
		e.t.Fatal(err)
	}
	e.replaceFiles(member, has.members[member])
	config, err := e.cluster.Config(&e.input, etcdcomponent.Membership{})
	if err != nil {
		e.t.Fatal(err)
	}
	file := filepath.Join(home, "config.yaml")
	content := strings.NewReplacer("0.0.0.0", address, "127.0.0.1", address, etcdcomponent.CertsDirectory, filepath.Join(home, "pki"), "/var/lib/etcd", home).Replace(config.Data[member+".yaml"])
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.members[member] = startEtcd(e.t, file, filepath.Join(e.directory, member+".log"))
}

// replaceFiles gives a member these files in the place of all others.
func (e *rotatedEtcd) replaceFiles(member string, files map[string][]byte) {
	e.t.Helper()
	directory := filepath.Join(e.directory, member, "pki")
	present, err := os.ReadDir(directory)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, file := range present {
		if files[file.Name()] == nil {
			err = os.Remove(filepath.Join(directory, file.Name()))
		}
		if err != nil {
			e.t.Fatal(err)
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			e.t.Fatal(err)
		}
	}
}

func (e *rotatedEtcd) addresses() map[string]etcd.Address {
	addresses := map[string]etcd.Address{}
	for _, member := range e.cluster.Members(&e.input) {
		addresses[member] = etcd.Address{Client: e.cluster.ClientURL(&e.input, member), Peer: e.cluster.PeerURL(&e.input, member)}
	}
	return addresses
}

// worksWith waits until all members follow one leader, as the manager of each phase sees it, and writes at each member as API servers of
// each phase do. Nothing that was written before is lost.
func (e *rotatedEtcd) worksWith(when string, phases ...etcdPhaseFiles) {
	e.t.Helper()
	for _, has := range phases {
		last := ""
		err := wait.PollUntilContextTimeout(e.t.Context(), 200*time.Millisecond, phasePatience, true, func(ctx context.Context) (bool, error) {
			health, err := etcd.Check(ctx, e.addresses(), has.manager)
			if err != nil {
				return false, err
			}
			last = strings.Join(health.Problems(), "; ")
			return last == "" && len(health.Members) == 3, nil
		})
		if err != nil {
			e.t.Fatalf("%s the manager of phase %q sees: %v; %s", when, has.phase, err, last)
		}
		for _, member := range e.cluster.Members(&e.input) {
			e.written++
			asks := e.dial(e.cluster.ClientURL(&e.input, member), has.apiServer)
			ctx, cancel := context.WithTimeout(e.t.Context(), phasePatience)
			// Another member may come to lead meanwhile, on a busy machine: the same write is tried again.
			var refused error
			err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				_, refused = asks.Put(ctx, fmt.Sprintf("/written/%04d", e.written), string(has.phase))
				return refused == nil, nil
			})
			if err = cmp.Or(refused, err); err != nil {
				e.t.Errorf("%s an API server of phase %q writes at %s: %v", when, has.phase, member, err)
			} else if got, err := asks.Get(ctx, "/written/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || int(got.Count) != e.written {
				e.t.Errorf("%s an API server of phase %q reads at %s of %d keys: %v %v", when, has.phase, member, e.written, got, err)
			}
			cancel()
			_ = asks.Close()
		}
	}
}

func (e *rotatedEtcd) dial(url string, config *tls.Config) *clientv3.Client {
	e.t.Helper()
	asks, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, TLS: config, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		e.t.Fatal(err)
	}
	return asks
}

// listener asks a listener of a member who it is, on a connection of its own.
func listener(t *testing.T, url string, config *tls.Config) error {
	t.Helper()
	asking := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	answer, err := asking.Get(url + "/version")
	if err == nil {
		err = answer.Body.Close()
	}
	return err
}

// letsIn fails unless both listeners of each member let in who shows a certificate, or refuse it. Who dials trusts the members.
func (e *rotatedEtcd) letsIn(good bool, what string, shown, trusting *tls.Config) {
	e.t.Helper()
	config := trusting.Clone()
	config.Certificates, config.GetClientCertificate = shown.Certificates, shown.GetClientCertificate
	for member, address := range e.addresses() {
		for port, url := range map[string]string{"client": address.Client, "peer": address.Peer} {
			err := listener(e.t, url, config)
			if good != (err == nil) || !good && !strings.Contains(err.Error(), "tls: ") {
				e.t.Errorf("it is %t that the %s port of %s should let in %s: %v", good, port, member, what, err)
			}
		}
	}
}

// Members go from phase to phase one by one. In each mixture they are one cluster, and clients of both phases reach all of them. In the end
// a certificate by the former CA opens no listener.
func TestRealMembersOfTwoPhasesAreOneEtcd(t *testing.T) {
	for _, cluster := range etcdcomponent.All {
		t.Run(cluster.Component, func(t *testing.T) {
			t.Parallel()
			e := newRotatedEtcd(t, cluster)
			before := e.rotate("")
			first := before
			members := cluster.Members(&e.input)
			for _, member := range members {
				e.start(member, before)
			}
			e.worksWith("at first", before)
			for _, phase := range []rotation.Phase{rotation.Trusting, rotation.Using, rotation.Prepared, rotation.Dropping, rotation.Over} {
				next := e.rotate(phase)
				if phase == rotation.Prepared || phase == rotation.Over {
					// Nothing restarts: members have what they had, without leaves that nobody shows.
					for _, member := range members {
						for path, content := range next.members[member] {
							if string(before.members[member][path]) != string(content) {
								t.Errorf("%s has another %s when it is %s", member, path, phase)
							}
						}
					}
				} else {
					for _, member := range slices.Backward(members) {
						e.start(member, next)
						e.worksWith(fmt.Sprintf("when %s has come to %s", member, phase), before, next)
					}
				}
				if phase != rotation.Dropping && phase != rotation.Over {
					e.letsIn(true, "a manager of before", first.manager, next.manager)
				}
				before = next
			}
			e.letsIn(true, "the manager", before.manager, before.manager)
			e.letsIn(false, "a manager of before", first.manager, before.manager)
			if cluster.Component == names.EtcdData {
				e.letsIn(false, "an API server of before", first.apiServer, before.manager)
			}
			peer := first.members[members[0]]
			e.letsIn(false, "a member of before", clientOf(t, peer["ca.crt"], peer["peer-client.crt"], peer["peer-client.key"]), before.manager)
		})
	}
}

// Etcd reads its leaf with each connection, and the CAs that it trusts only when it starts: to trust others it has to restart.
func TestARealMemberReadsTrustedCAsOnlyWhenItStarts(t *testing.T) {
	t.Parallel()
	e := newRotatedEtcd(t, etcdcomponent.Data)
	e.input.Spec.Etcd.Data.Replicas = ptr.To[int32](1)
	before := e.rotate("")
	member := e.cluster.Members(&e.input)[0]
	e.start(member, before)
	url := e.cluster.ClientURL(&e.input, member)
	waitFor := func(what string, config *tls.Config) {
		t.Helper()
		var last error
		if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, phasePatience, true, func(context.Context) (bool, error) {
			last = listener(t, url, config)
			return last == nil, nil
		}); err != nil {
			t.Fatalf("%s: %v", what, last)
		}
	}
	waitFor("it starts", before.manager)
	e.rotate(rotation.Trusting)
	next := e.rotate(rotation.Using)

	trustsNext, formerShown := next.manager.Clone(), before.manager.Clone()
	formerShown.RootCAs = next.manager.RootCAs
	e.replaceFiles(member, next.members[member])
	if leaf := leafOf(t, url, formerShown); !vouchesFor(next.members[member]["ca.crt"], leaf) || vouchesFor(before.members[member]["ca.crt"], leaf) {
		t.Error("it shows the leaf that it had when it started")
	}
	if err := listener(t, url, trustsNext); err == nil || !strings.Contains(err.Error(), "tls: ") {
		t.Errorf("a client of the new CA is let in before a restart: %v", err)
	}
	e.start(member, next)
	waitFor("it starts anew", trustsNext)
}

// leafOf is the certificate that a listener shows.
func leafOf(t *testing.T, url string, config *tls.Config) []byte {
	t.Helper()
	connection, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close() //nolint:errcheck // Nothing was written.
	return certs.EncodeCertPEM(connection.ConnectionState().PeerCertificates[0])
}
