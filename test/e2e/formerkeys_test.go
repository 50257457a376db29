//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/forgery"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/readiness"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// How long listeners that ask API servers about a token remember the answer, as docs/keys.md says.
const (
	rememberedByComponents = 10 * time.Second
	rememberedByKubelets   = 2 * time.Minute
)

// place is a listener that asks who somebody is.
type place struct {
	name string
	// tokens is for how long it remembers that a token is good.
	tokens time.Duration
	ask    func(probe.Credential) probe.Answer
}

// try is a credential at a place.
type try struct {
	what       string
	remembered time.Duration
	ask        func() probe.Answer
}

// at are the tries of credentials at places.
func at(places []place, credentials ...probe.Credential) (tries []try) {
	for _, place := range places {
		for _, credential := range credentials {
			one := try{what: credential.Name + " at " + place.name, ask: func() probe.Answer { return place.ask(credential) }}
			if credential.Certificate == nil {
				one.remembered = place.tokens
			}
			tries = append(tries, one)
		}
	}
	return tries
}

// placesOf has a place for each pod of a component. Each listens at the same port of its host.
func (t *tenant) placesOf(ctx context.Context, component, name string, port int32, tokens time.Duration, ask func(address string, credential probe.Credential) probe.Answer) (places []place) {
	GinkgoHelper()
	pods, err := t.pods(ctx, component)
	Expect(err).NotTo(HaveOccurred())
	Expect(pods).NotTo(BeEmpty(), component)
	for i := range pods {
		server := address(pods[i].Status.HostIP, port)
		places = append(places, place{name + pods[i].Name, tokens, func(credential probe.Credential) probe.Answer { return ask(server, credential) }})
	}
	return places
}

// byTLS asks for a path over TLS.
func byTLS(ctx context.Context, path string) func(address string, credential probe.Credential) probe.Answer {
	return func(address string, credential probe.Credential) probe.Answer {
		return probe.TLS(ctx, address, credential, path)
	}
}

// servers has a place for each API server, controller manager and scheduler.
func (t *tenant) servers(ctx context.Context) []place {
	GinkgoHelper()
	block := t.ports(ctx)
	return slices.Concat(
		t.placesOf(ctx, names.KubeAPIServer, "", block.APIServer, 0, byTLS(ctx, "/api/v1/namespaces")),
		t.placesOf(ctx, names.KubeControllerManager, "", block.Number(kubecontrollermanager.HTTPS), rememberedByComponents, byTLS(ctx, "/metrics")),
		t.placesOf(ctx, names.KubeScheduler, "", block.Number(kubescheduler.HTTPS), rememberedByComponents, byTLS(ctx, "/metrics")),
	)
}

// konnectivityServers has a place for each server of konnectivity. Who asks there connects as an agent.
func (t *tenant) konnectivityServers(ctx context.Context) []place {
	GinkgoHelper()
	asAgent := func(address string, credential probe.Credential) probe.Answer {
		return probe.Agent(ctx, (&net.Dialer{}).DialContext, address, credential)
	}
	return t.placesOf(ctx, names.KubeAPIServer, "konnectivity's server of ", t.ports(ctx).Number(kubeapiserver.KonnectivityAgent), 0, asAgent)
}

// snapshotAgents has a place for each agent that takes snapshots of a member. Who asks there connects as the manager.
func (t *tenant) snapshotAgents(ctx context.Context) []place {
	GinkgoHelper()
	return t.placesOf(ctx, names.EtcdData, "the agent of ", etcd.Data.PortsOf(t.ports(ctx)).Backup, 0, byTLS(ctx, backup.ReportPath))
}

// kubeletOf is the kubelet of a worker.
func kubeletOf(ctx context.Context, worker *host.Host) place {
	return place{"the kubelet of " + worker.Name, rememberedByKubelets, func(credential probe.Credential) (answer probe.Answer) {
		if err := worker.InNetwork(func() error {
			answer = probe.TLS(ctx, "127.0.0.1:10250", credential, "/healthz")
			return nil
		}); err != nil {
			return probe.Answer{Err: err}
		}
		return answer
	}}
}

// expectTaken sees to it that each try gets what it asks for.
func expectTaken(ctx context.Context, tries []try) {
	GinkgoHelper()
	Expect(tries).NotTo(BeEmpty())
	for _, one := range tries {
		var answer probe.Answer
		Eventually(ctx, func() bool {
			answer = one.ask()
			return answer.Err == nil && answer.Status == http.StatusOK
		}).WithTimeout(time.Minute).Should(BeTrue(), func() string { return one.what + ": " + answer.String() })
	}
}

// takenAfter counts the tries that are let in after a rotation that was over at a time. Each is asked until it is refused, and no longer than its
// place may remember it. Everybody else has to refuse it.
func takenAfter(ctx context.Context, over time.Time, tries []try) (taken int) {
	GinkgoHelper()
	Expect(tries).NotTo(BeEmpty())
	for _, one := range tries {
		answer := probe.Last(ctx, over.Add(one.remembered), one.ask)
		if answer.LetIn() {
			env.log.Print("after the rotation %s is taken: %s", one.what, answer)
			taken++
			continue
		}
		Expect(answer.Refused()).To(BeTrue(), "%s: %s", one.what, answer)
	}
	return taken
}

// shown is the try of a server's certificate at a client that trusts a bundle of CAs.
func shown(what string, bundle []byte, server tls.Certificate, name string) try {
	return try{what: what, ask: func() probe.Answer {
		err := forgery.Trusts(bundle, server, name)
		var unknown x509.UnknownAuthorityError
		switch {
		case err == nil:
			return probe.Answer{Status: http.StatusOK}
		case errors.As(err, &unknown):
			return probe.Answer{Status: http.StatusUnauthorized}
		default:
			return probe.Answer{Err: err}
		}
	}}
}

// formerCA is a CA of the tenant as it is now.
func (t *tenant) formerCA(ctx context.Context, certificate, key string) forgery.CA {
	GinkgoHelper()
	material := t.secret(ctx, names.KeyMaterial(t.Name))
	ca, err := forgery.ReadCA(material.Data[certificate], material.Data[key])
	Expect(err).NotTo(HaveOccurred(), "%s", certificate)
	return ca
}

// forged is a certificate like a genuine one, as anybody makes it who has the key of its CA.
func forged(ca forgery.CA, genuine tls.Certificate) tls.Certificate {
	GinkgoHelper()
	made, err := ca.Like(genuine.Leaf)
	Expect(err).NotTo(HaveOccurred())
	return made
}

// formerKeys are credentials of all keys of a tenant but the cluster CA: those that it handed out, and those that anybody makes who has the keys.
type formerKeys struct {
	tokens, proxies []probe.Credential
	// agents are tokens that agents of konnectivity show to its servers.
	agents []probe.Credential
	etcd   []etcdCredential
	// members are certificates of servers, by the names of members, that who has the keys of the CAs of etcd made.
	members map[string]tls.Certificate
}

// formerKeys makes them, for a tenant whose keys never rotated.
func (t *tenant) formerKeys(ctx context.Context) *formerKeys {
	GinkgoHelper()
	token := t.mightyToken(ctx)
	byAttacker, err := forgery.Token(token, t.secret(ctx, names.KeyMaterial(t.Name)).Data[pki.ServiceAccountKey])
	Expect(err).NotTo(HaveOccurred())
	all := &formerKeys{members: map[string]tls.Certificate{}, tokens: []probe.Credential{
		probe.Bearer("a token", token), probe.Bearer("another token", t.mightyToken(ctx)),
		probe.Bearer("a token that never ends", t.lastingToken(ctx)), probe.Bearer("a token by who has the service account key", byAttacker),
	}}
	agent := t.agentToken(ctx)
	agentByAttacker, err := forgery.Token(agent, t.secret(ctx, names.KeyMaterial(t.Name)).Data[pki.ServiceAccountKey])
	Expect(err).NotTo(HaveOccurred())
	all.agents = []probe.Credential{
		probe.Bearer("a token of konnectivity's agents", agent),
		probe.Bearer("an agent's token by who has the service account key", agentByAttacker),
	}
	proxy := t.proxy(ctx)
	all.proxies = []probe.Credential{
		certificate("the front proxy", proxy),
		certificate("who has the key of the front-proxy CA", forged(t.formerCA(ctx, pki.FrontProxyCACert, pki.FrontProxyCAKey), proxy)),
	}
	ofData := t.formerCA(ctx, pki.EtcdCACert, pki.EtcdCAKey)
	ofEvents := t.formerCA(ctx, pki.EtcdEventsCACert, pki.EtcdEventsCAKey)
	for _, genuine := range t.etcdCredentials(ctx) {
		ca := ofData
		if genuine.byEventsCA {
			ca = ofEvents
		}
		byAttacker := genuine
		byAttacker.what, byAttacker.pair = "who has the key of the CA of "+genuine.what, forged(ca, genuine.pair)
		all.etcd = append(all.etcd, genuine, byAttacker)
	}
	for component, ca := range map[string]forgery.CA{names.EtcdData: ofData, names.EtcdEvents: ofEvents} {
		member := t.servicesOf(ctx, component)[0].Name
		all.members[member] = forged(ca, keyPair(t.secret(ctx, names.Certs(t.Name, component)), member))
	}
	return all
}

// tries are those of all credentials at each listener that takes them while their keys are good.
func (f *formerKeys) tries(ctx context.Context, t *tenant, worker *host.Host) []try {
	GinkgoHelper()
	servers := t.servers(ctx)
	tries := slices.Concat(at(append(slices.Clone(servers), kubeletOf(ctx, worker)), f.tokens...), at(servers, f.proxies...),
		at(t.konnectivityServers(ctx), f.agents...), t.atEtcd(ctx, f.etcd))
	trusted := t.secret(ctx, names.Certs(t.Name, names.KubeAPIServer)).Data[t.fileOf(ctx, "etcd-cafile")]
	for member, pair := range f.members {
		tries = append(tries, shown("who has the key of the CA of "+member+" and answers in its place, at API servers", trusted, pair, member))
	}
	return tries
}

// agentToken makes a token that agents of konnectivity show to its servers.
func (t *tenant) agentToken(ctx context.Context) string {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"system:konnectivity-server"}}}
	token, err := t.api.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, "konnectivity-agent", request, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return token.Status.Token
}

// proxy is the certificate by which API servers act for users now.
func (t *tenant) proxy(ctx context.Context) tls.Certificate {
	GinkgoHelper()
	return keyPair(t.secret(ctx, names.Certs(t.Name, names.KubeAPIServer)), strings.TrimSuffix(t.fileOf(ctx, "proxy-client-cert-file"), ".crt"))
}

// etcdCredential is a certificate by a CA of etcd, and the listeners of members that take it while that CA is good.
type etcdCredential struct {
	what, component string
	pair            tls.Certificate
	ports           []string
	// byEventsCA is true for one by the CA of the events etcd.
	byEventsCA bool
}

// etcdCredentials are those of a tenant whose CAs of etcd never rotated: those by which members dial each other, and the one of API
// servers, which both etcds take.
func (t *tenant) etcdCredentials(ctx context.Context) []etcdCredential {
	GinkgoHelper()
	ofServers := keyPair(t.secret(ctx, names.Certs(t.Name, names.KubeAPIServer)), "etcd-client")
	all := []etcdCredential{
		{"the etcd client of API servers", names.EtcdData, ofServers, []string{"client", "peer"}, false},
		{"the etcd client of API servers", names.EtcdEvents, ofServers, []string{"client"}, false},
	}
	for _, component := range []string{names.EtcdData, names.EtcdEvents} {
		pair := keyPair(t.secret(ctx, names.Certs(t.Name, component)), "peer-client")
		all = append(all, etcdCredential{"the peers of " + component, component, pair, []string{"client", "peer"}, component == names.EtcdEvents})
	}
	return all
}

// servicesOf are the Services of an etcd, one of each member with its name.
func (t *tenant) servicesOf(ctx context.Context, component string) []corev1.Service {
	GinkgoHelper()
	services := &corev1.ServiceList{}
	listAll(ctx, services, client.InNamespace(t.Namespace), client.MatchingLabels(names.ComponentLabels(t.ObjectKey, component)))
	Expect(services.Items).NotTo(BeEmpty(), "Services of %s", component)
	return services.Items
}

// atEtcd are the tries of certificates at members.
func (t *tenant) atEtcd(ctx context.Context, credentials []etcdCredential) (tries []try) {
	GinkgoHelper()
	for _, credential := range credentials {
		for _, service := range t.servicesOf(ctx, credential.component) {
			for _, port := range service.Spec.Ports {
				if !slices.Contains(credential.ports, port.Name) {
					continue
				}
				listener, one := address(service.Spec.ClusterIP, port.Port), probe.Credential{Certificate: &credential.pair}
				tries = append(tries, try{
					what: credential.what + " at the " + port.Name + " port of " + service.Name,
					ask:  func() probe.Answer { return probe.TLS(ctx, listener, one, "/version") },
				})
			}
		}
	}
	return tries
}

// watchReadiness watches the pods of a tenant's control plane, all of which are ready.
func (t *tenant) watchReadiness(ctx context.Context) *readiness.Pods {
	GinkgoHelper()
	pods, err := readiness.WatchPods(ctx, env.clientset, t.Namespace, labels.SelectorFromSet(names.Labels(t.ObjectKey)).String(), names.ComponentLabel)
	Expect(err).NotTo(HaveOccurred())
	return pods
}

// expectOneAtATime sees to it that no component lacked more than one ready pod at any moment.
func expectOneAtATime(what string, pods *readiness.Pods) {
	GinkgoHelper()
	most, lacked := 0, pods.Lacked()
	for component, lack := range lacked {
		env.log.Print("%s: %s lacked %d pods at most: %s", what, component, lack.Count, lack.Others)
		most = max(most, lack.Count)
	}
	figure(what+"_pods_missing_at_once", most, "pods of a component")
	Expect(most).To(BeNumerically("<=", 1), "pods of a component that were not ready at once: %v", lacked)
}
