//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
)

// listener is a TCP port that a component listens on, in one pod.
type listener struct {
	owner, component string
	// address is that of the pod, which on the host network is that of the host node.
	address string
	port    int32
	// loopback is true when only the host node itself, or the pod, reaches it.
	loopback bool
	// forKubelet is true when it answers everybody who reaches it, which a NetworkPolicy has to leave to kubelet.
	forKubelet bool
	// path is something that only who is let in may read, own a credential that is.
	path string
	own  probe.Credential
}

// closed is true when nobody from outside is to reach it at all.
func (l listener) closed() bool { return l.loopback || l.forKubelet }

// secrets are paths that must not be answered to who shows no credential.
func (l listener) secrets() []string {
	paths := []string{"/", l.path, "/metrics", "/configz", "/debug/pprof/", "/api/v1/secrets"}
	if l.component == names.KubeControllerManager || l.component == names.KubeScheduler {
		// These ask their API server, where everybody may read /version (ClusterRole
		// system:public-info-viewer), and have nothing there.
		return paths
	}
	return append(paths, "/version")
}

func (l listener) String() string {
	return fmt.Sprintf("%s of %s at %s", l.component, l.owner, l.address)
}

// listenersOf finds every TCP listener of a tenant's components, as the kernel knows them.
func listenersOf(ctx context.Context, t *tenant) []listener {
	GinkgoHelper()
	pods, err := t.pods(ctx, "")
	Expect(err).NotTo(HaveOccurred())
	doors, probed := t.doorsByComponent(ctx), t.probed(ctx)
	var list []listener
	for _, process := range processesOf(pods) {
		addresses, err := processes.Listeners(process.pid)
		Expect(err).NotTo(HaveOccurred())
		Expect(addresses).NotTo(BeEmpty(), "pod %s listens nowhere", process.pod)
		for _, found := range addresses {
			l := listener{
				owner: t.String(), component: process.component, loopback: found.Addr().IsLoopback(), port: int32(found.Port()),
				address: address(process.address, int32(found.Port())),
			}
			if !l.loopback && probed[l.component] == l.port {
				l.forKubelet = true
			}
			if !l.closed() {
				door, ok := doors[l.component][l.port]
				Expect(ok).To(BeTrue(), "pod %s listens on %s, which is no port of its own", process.pod, found)
				l.path, l.own = door.path, door.own
			}
			list = append(list, l)
		}
	}
	return list
}

// door is what there is behind a port.
type door struct {
	path string
	own  probe.Credential
}

// answer is what is answered at an address to who has the key.
func (d door) answer(ctx context.Context, address string) probe.Answer {
	return probe.TLS(ctx, address, d.own, d.path)
}

// doors are the tenant's ports on the host network that others may reach.
func (t *tenant) doors(ctx context.Context) map[int32]door {
	GinkgoHelper()
	all := map[int32]door{}
	for _, doors := range t.doorsByComponent(ctx) {
		maps.Copy(all, doors)
	}
	return all
}

// doorsByComponent are the ports that others may reach. On the pod network both etcds have the same.
func (t *tenant) doorsByComponent(ctx context.Context) map[string]map[int32]door {
	GinkgoHelper()
	block := t.ports(ctx)
	admin := certificate("the administrator of "+t.String(), t.adminCertificate())
	apiServer := t.secret(ctx, names.Certs(t.Name, names.KubeAPIServer))
	etcdClient := certificate("the API server of "+t.String(), keyPair(apiServer, kubeapiserver.EtcdClientCert))
	peer := func(component string) probe.Credential {
		return certificate("a peer of "+component, keyPair(t.secret(ctx, names.Certs(t.Name, component)), etcd.PeerClient))
	}
	member := func(component string, block etcd.Ports) map[int32]door {
		return map[int32]door{block.Client: {"/version", etcdClient}, block.Peer: {"/members", peer(component)}}
	}
	return map[string]map[int32]door{
		names.KubeAPIServer:         {block.APIServer: {"/api/v1/namespaces", admin}},
		names.KubeControllerManager: {block.Number(kubecontrollermanager.HTTPS): {"/metrics", admin}},
		names.KubeScheduler:         {block.Number(kubescheduler.HTTPS): {"/metrics", admin}},
		names.EtcdData:              member(names.EtcdData, etcd.Data.PortsOf(block)),
		names.EtcdEvents:            member(names.EtcdEvents, etcd.Events.PortsOf(block)),
	}
}

// probed are the ports, by component, that answer who has no credential: kubelet asks there, on the host network on
// loopback.
func (t *tenant) probed(ctx context.Context) map[string]int32 {
	GinkgoHelper()
	if !t.mode.onPodNetwork() {
		return nil
	}
	block := t.ports(ctx)
	return map[string]int32{names.EtcdData: etcd.Data.PortsOf(block).Metrics, names.EtcdEvents: etcd.Events.PortsOf(block).Metrics}
}

// admits reports whether the NetworkPolicy of a listener's component lets anybody in there.
func (t *tenant) admits(ctx context.Context, l listener) bool {
	GinkgoHelper()
	policy := &networkingv1.NetworkPolicy{}
	get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: names.Object(t.Name, l.component)}, policy)
	Expect(policy.Spec.PolicyTypes).To(ContainElement(networkingv1.PolicyTypeIngress))
	return slices.ContainsFunc(policy.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
		return len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
			return p.Port == nil || p.EndPort != nil || p.Port.IntVal == l.port
		})
	})
}

// adminCertificate is the one in the kubeconfig that Cluster API gives to people.
func (t *tenant) adminCertificate() tls.Certificate {
	GinkgoHelper()
	pair, err := tls.X509KeyPair(t.access.CertData, t.access.KeyData)
	Expect(err).NotTo(HaveOccurred())
	return pair
}

// certificate is a credential. It also claims to be a front proxy that knows an administrator.
func certificate(name string, pair tls.Certificate) probe.Credential {
	return probe.Credential{Name: name, Certificate: &pair, Header: http.Header{
		"X-Remote-User": {"kubernetes-admin"}, "X-Remote-Group": {"system:masters"},
	}}
}

// credentialsOf are all that a tenant has: the administrator's, every certificate of a component, and a
// service account's token.
func credentialsOf(ctx context.Context, t *tenant) []probe.Credential {
	GinkgoHelper()
	list := []probe.Credential{certificate("the administrator of "+t.String(), t.adminCertificate())}
	secrets := &corev1.SecretList{}
	listAll(ctx, secrets, client.InNamespace(t.Namespace), client.MatchingLabels(names.Labels(t.ObjectKey)))
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if !strings.HasSuffix(secret.Name, "-certs") {
			continue
		}
		for key := range secret.Data {
			name, isKey := strings.CutSuffix(key, ".key")
			if isKey {
				list = append(list, certificate(fmt.Sprintf("%s of Secret %s", name, client.ObjectKeyFromObject(secret)), keyPair(secret, name)))
			}
		}
	}
	Expect(len(list)).To(BeNumerically(">", 10), "certificates of %s", t.ObjectKey)
	return append(list, probe.Bearer("a service account of "+t.String(), t.mightyToken(ctx)))
}

// mightyAccount is a service account that may do everything in its tenant.
const mightyAccount = "e2e-mighty"

// mightyToken is a token of the mighty service account.
func (t *tenant) mightyToken(ctx context.Context) string {
	GinkgoHelper()
	accounts := t.api.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: mightyAccount}}, metav1.CreateOptions{})
	Expect(err).To(Or(Not(HaveOccurred()), MatchError(apierrors.IsAlreadyExists, "IsAlreadyExists")))
	_, err = t.api.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: mightyAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: mightyAccount}},
	}, metav1.CreateOptions{})
	Expect(err).To(Or(Not(HaveOccurred()), MatchError(apierrors.IsAlreadyExists, "IsAlreadyExists")))
	token, err := accounts.CreateToken(ctx, mightyAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(t.access)
	config.BearerToken = token.Status.Token
	bearer, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	// Another API server than the one that took the binding may be asked, and hear of it a moment later.
	Eventually(ctx, func() error {
		_, err := bearer.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	}).Should(Succeed(), "the token works in its own tenant")
	return token.Status.Token
}
