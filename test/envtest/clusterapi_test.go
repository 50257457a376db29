//go:build envtest

package envtest

import (
	"context"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/attack/witness"
)

// connectAsTheCore connects to tenants as Cluster API's core manager does, until the test ends, but tries again sooner.
func connectAsTheCore(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	mgr, err := ctrl.NewManager(environment.Config, ctrl.Options{
		Scheme: environment.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: setup.ManagerCacheOptions(environment.Scheme, witness.CoreManager, "", 10*time.Minute), Client: setup.ManagerClientOptions(),
	})
	g.Expect(err).NotTo(HaveOccurred())
	secrets, err := setup.CreateSecretCachingClient(mgr)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	connections, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: secrets, Cache: setup.ClusterCacheCacheOptions(), Client: setup.ClusterCacheClientOptions(witness.CoreManager, 20, 30),
	}, controller.Options{MaxConcurrentReconciles: 5})
	g.Expect(err).NotTo(HaveOccurred())
	connections.(interface{ SetConnectionCreationRetryInterval(time.Duration) }).SetConnectionCreationRetryInterval(time.Second)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

// stranger is a server that a user of a namespace chose. It keeps the credentials that it is shown.
type stranger struct {
	*httptest.Server
	shown witness.Credentials
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	s := &stranger{}
	s.Server = httptest.NewTLSServer(&s.shown)
	t.Cleanup(s.Close)
	return s
}

// kubeconfigOf is a Secret with a kubeconfig that leads to the server, as the core manager reads it.
func (s *stranger) kubeconfigOf(t *testing.T, c *clusterv1.Cluster, user *clientcmdapi.AuthInfo) *corev1.Secret {
	t.Helper()
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"a": {
			Server: s.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": user}, Contexts: map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}}, CurrentContext: "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig.GenerateSecret(c, content)
}

// Finding 1, as to Cluster API's own managers: they send along the file that a kubeconfig names, as soon as the infrastructure of its Cluster
// is provisioned. Nothing but the webhook keeps such a kubeconfig from them, and docs/security.md says so. This test fails where Cluster API
// does so no more: then the page says more than is true.
func TestFinding1TheWebhookIsWhatKeepsTheTokenOfClusterAPIsCore(t *testing.T) {
	const token = "token-of-the-core-manager"
	file := filepath.Join(t.TempDir(), "token")
	NewWithT(t).Expect(os.WriteFile(file, []byte(token), 0o600)).To(Succeed())
	ofAFile, ofAToken := &clientcmdapi.AuthInfo{TokenFile: file}, &clientcmdapi.AuthInfo{Token: "of-the-stranger"}
	connectAsTheCore(t)
	newCluster := func(g *WithT) *clusterv1.Cluster {
		c := cluster(newNamespace(t), "blue")
		g.Expect(environment.Client.Create(t.Context(), c)).To(Succeed())
		t.Cleanup(func() { NewWithT(t).Expect(environment.Client.Delete(context.Background(), c)).To(Succeed()) })
		return c
	}
	// The core does so once the infrastructure is there. No control plane is initialized here.
	provision := func(g *WithT, c *clusterv1.Cluster) {
		c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
		g.Expect(environment.Client.Status().Update(t.Context(), c)).To(Succeed())
	}
	const own, strangers = "Bearer " + token, "Bearer of-the-stranger"
	shows := func(server *stranger, credential string) func() int {
		return func() int { return server.shown.Count(witness.CoreManager, credential) }
	}

	t.Run("of a kubeconfig that was there before, it comes", func(t *testing.T) {
		g, server := NewWithT(t), newStranger(t)
		c := newCluster(g)
		asked, err := environment.WithoutWebhooks(t.Context(), c.Namespace)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(environment.Client.Create(t.Context(), server.kubeconfigOf(t, c, ofAFile))).To(Succeed())
		g.Expect(asked(t.Context())).To(Succeed())
		provision(g, c)
		g.Eventually(shows(server, own)).WithTimeout(time.Minute).ShouldNot(BeZero())
	})
	t.Run("of a kubeconfig that is written later, it does not", func(t *testing.T) {
		g, server := NewWithT(t), newStranger(t)
		c := newCluster(g)
		const refusal = `data[value]: Invalid value: tokenFile is refused, it would read a file of the manager: use token`
		expectRefusal(t, environment.Client.Create(t.Context(), server.kubeconfigOf(t, c, ofAFile)), refusal)
		provision(g, c)
		secret := server.kubeconfigOf(t, c, ofAToken)
		g.Expect(environment.Client.Create(t.Context(), secret)).To(Succeed())
		g.Eventually(shows(server, strangers)).WithTimeout(time.Minute).ShouldNot(BeZero(), "the core connects")
		changed := server.kubeconfigOf(t, c, ofAFile)
		changed.ResourceVersion = secret.ResourceVersion
		expectRefusal(t, environment.Client.Update(t.Context(), changed), refusal)
		before := shows(server, strangers)()
		g.Eventually(shows(server, strangers)).WithTimeout(time.Minute).Should(BeNumerically(">", before), "it connects again")
		g.Expect(server.shown.Besides(strangers)).To(BeEmpty())
	})
}
