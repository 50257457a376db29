//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/attack"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/attack/witness"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

const (
	// ownToken is where a manager's pod has the token of its service account.
	ownToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	// strangersToken is what a harmless kubeconfig has managers show.
	strangersToken = "Bearer of-the-attacker"
	// reconnects is how long Cluster API's managers may take to come to a server, also again after it refused them: they wait for half a minute.
	reconnects = 3 * time.Minute
)

// lure is a user who may write Clusters and Secrets in one namespace, and a server of theirs.
type lure struct {
	*tenant
	user client.Client
	// server is where the kubeconfigs lead, ca what it is trusted by.
	server netip.AddrPort
	ca     []byte
	// shown are the credentials that came.
	shown witness.Credentials
}

// heardOfCore is how often Cluster API's core manager came with the credential of the harmless kubeconfig.
func (l *lure) heardOfCore() int { return l.shown.Count(witness.CoreManager, strangersToken) }

// newLure makes the user, their namespace and their server.
func (s *siege) newLure(ctx context.Context) *lure {
	GinkgoHelper()
	l := &lure{tenant: &tenant{ObjectKey: client.ObjectKey{Namespace: "e2e-lure", Name: "lure"}}, ca: s.attacker.CA}
	l.remove(ctx)
	DeferCleanup(func(ctx SpecContext) { l.remove(ctx) }, NodeTimeout(2*creation))
	named := metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}
	write := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metaNamed(l.Namespace)},
		&rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: write},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: write},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: l.Namespace}},
		},
	} {
		Expect(env.client.Create(ctx, object)).To(Succeed())
	}
	config := rest.CopyConfig(env.config)
	config.Impersonate.UserName = l.Namespace
	var err error
	l.user, err = client.New(config, client.Options{Scheme: scheme.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func() error { return l.user.List(ctx, &corev1.SecretList{}, client.InNamespace(l.Namespace)) }).Should(Succeed(), "the user has the role")
	Expect(l.user.List(ctx, &corev1.SecretList{}, client.InNamespace(manager.Namespace))).To(MatchError(apierrors.IsForbidden, "IsForbidden"), "the user reads no other namespace")

	cloud, port := siteHosts()[0], attack.NextPort()
	canary, err := attack.Plant(port, s.certificate, &l.shown, attack.ListenAt(cloud, cloud.Address))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(canary.Close)
	l.server = netip.AddrPortFrom(cloud.Address, port)
	return l
}

// secretTo is the Secret that managers look for, with a kubeconfig that leads to the user's server.
func (l *lure) secretTo(edit func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) *corev1.Secret {
	GinkgoHelper()
	cluster := &clientcmdapi.Cluster{Server: "https://" + l.server.String(), CertificateAuthorityData: l.ca}
	user := &clientcmdapi.AuthInfo{Token: strings.TrimPrefix(strangersToken, "Bearer ")}
	edit(cluster, user)
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"a": cluster}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": user},
		Contexts: map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}}, CurrentContext: "a",
	})
	Expect(err).NotTo(HaveOccurred())
	secret := kubeconfig.GenerateSecretWithOwner(l.ObjectKey, content, metav1.OwnerReference{})
	secret.OwnerReferences = nil // There may be no Cluster yet.
	return secret
}

// clusterOf is a Cluster without infrastructure: that counts as provisioned at once, and Cluster API's managers connect. Its control plane never comes.
func (l *lure) clusterOf() *clusterv1.Cluster {
	cluster := l.clusterObject()
	cluster.Spec.ClusterNetwork.Pods.CIDRBlocks, cluster.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"192.168.0.0/16"}, []string{"10.128.0.0/16"}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KOKControlPlane", Name: l.Name}
	return cluster
}

// unsafeKubeconfigs are those by which a manager gives something of its own away, with the words of their refusal.
var unsafeKubeconfigs = []struct {
	name, refusal string
	edit          func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
}{
	{"the file of its token", "tokenFile is refused", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token, u.TokenFile = "", ownToken }},
	{"the file of its token beside a token", "tokenFile is refused", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.TokenFile = ownToken }},
	{"a file as a certificate", "client-certificate is refused", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
		u.Token, u.ClientCertificate, u.ClientKey = "", ownToken, ownToken
	}},
	{"a file as an authority", "certificate-authority is refused", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.CertificateAuthorityData, c.CertificateAuthority = nil, ownToken
	}},
	{"a program", "exec is refused", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
		u.Token, u.Exec = "", &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "cat", Args: []string{ownToken}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
	}},
	{"an auth provider", "auth-provider is refused", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
		u.Token, u.AuthProvider = "", &clientcmdapi.AuthProviderConfig{Name: "oidc"}
	}},
}

// luresManagers has the user write kubeconfigs that name files of a manager. The user tries it before there is a Cluster, and again once Cluster
// API's core manager has come by a harmless kubeconfig. That manager would send its token along, which reads the Secrets of all namespaces.
func (s *siege) luresManagers(ctx context.Context) {
	GinkgoHelper()
	l := s.newLure(ctx)
	add := func(name, did, refusal string, err error) {
		GinkgoHelper()
		outcome := attack.Outcome{Name: "kubeconfig with " + name, Did: did, Target: "the token of Cluster API's core manager"}
		if outcome.Succeeded = err == nil; outcome.Succeeded {
			outcome.Remark = "the Secret was written"
		} else {
			Expect(err).To(MatchError(ContainSubstring(refusal)), "another reason stopped it, and nothing is proved")
			outcome.Stopped = err.Error()
		}
		s.report.Add(outcome)
	}
	for _, way := range unsafeKubeconfigs {
		secret := l.secretTo(way.edit)
		add(way.name, "writes the Secret before there is a Cluster", way.refusal, l.user.Create(ctx, secret))
		Expect(client.IgnoreNotFound(l.user.Delete(ctx, secret))).To(Succeed())
	}
	harmless := l.secretTo(func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {})
	Expect(l.user.Create(ctx, harmless)).To(Succeed())
	Expect(l.user.Create(ctx, l.clusterOf())).To(Succeed())
	Eventually(ctx, func() int { return l.heardOfCore() }).WithTimeout(reconnects).ShouldNot(BeZero(), "Cluster API's core manager does not come, and nothing is proved")
	s.report.Control("Cluster API's core manager comes to the server that a user's kubeconfig names, with the token in it")
	for _, way := range unsafeKubeconfigs {
		changed := l.secretTo(way.edit)
		add(way.name, "changes the Secret by which the manager connects", way.refusal, l.user.Update(ctx, changed))
	}
	before := l.heardOfCore()
	Eventually(ctx, func() int { return l.heardOfCore() }).WithTimeout(reconnects).Should(BeNumerically(">", before), "Cluster API's core manager does not come again, and nothing is proved")
	outcome := attack.Outcome{
		Name: "a server that managers come to", Did: "keeps what every manager shows it", Target: "tokens of managers",
		Stopped: fmt.Sprintf("Cluster API's core manager came %d times, with the token of the user's own kubeconfig", l.heardOfCore()),
	}
	if others := l.shown.Besides(strangersToken); len(others) > 0 {
		outcome.Succeeded, outcome.Remark = true, strings.Join(others, ", ")
	}
	s.report.Add(outcome)
}
