//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
)

// installing bounds the start of cert-manager and all managers on one worker.
const installing = 10 * time.Minute

// management is another management cluster than the host cluster: a tenant with one worker, on which Cluster API's
// core and the providers run. Its API servers reach webhooks there by konnectivity.
type management struct {
	*tenant
	// kubeconfig is a file, client has the same access.
	kubeconfig string
	client     client.Client
}

// install makes the tenant and everything in it. clusterctl init finds a cert-manager, as in the lab.
func (m *management) install(ctx context.Context) {
	GinkgoHelper()
	m.createWithWorkers(ctx, 0)
	m.setKonnectivity(ctx, controlplanev1.AddonManaged)
	proxy := env.proxy.GetWorkloadCluster(ctx, m.Namespace, m.Name)
	DeferCleanup(proxy.Dispose)
	m.kubeconfig, m.client = proxy.GetKubeconfigPath(), proxy.GetClient()

	m.beChosen(ctx)
	Expect(env.run(ctx, env.kubectl, "--kubeconfig", m.kubeconfig, "apply", "--server-side", "--filename", env.certManager)).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		deployments := &appsv1.DeploymentList{}
		g.Expect(m.client.List(ctx, deployments, client.InNamespace("cert-manager"))).To(Succeed())
		g.Expect(deployments.Items).NotTo(BeEmpty())
		for _, d := range deployments.Items {
			g.Expect(d.Status.AvailableReplicas).To(Equal(*d.Spec.Replicas), "available pods of %s", d.Name)
		}
	}).WithTimeout(installing).Should(Succeed(), "cert-manager in %s", m.ObjectKey)

	installer := &providers.Installer{
		Client: m.client, Kubeconfig: m.kubeconfig, Clusterctl: env.clusterctl, Repository: settings.repository,
		Version: settings.providerVersion, CoreVersion: artifacts.DefaultVersions().ClusterAPI, Log: env.log,
		Providers: providers.Own(settings.programs, settings.registry, settings.tag),
		// All other images are on every host of the lab.
		Load: func(ctx context.Context, image, program string) error {
			return env.lab.LoadProgram(ctx, image, program, m.worker(ctx).Name)
		},
	}
	Expect(installer.Install(ctx)).To(Succeed(), "clusterctl init in %s", m.ObjectKey)
}

// beChosen labels the worker as the nodes are on which the lab's manifests put what a management cluster has.
func (m *management) beChosen(ctx context.Context) {
	GinkgoHelper()
	nodes := &corev1.NodeList{}
	Expect(m.client.List(ctx, nodes)).To(Succeed())
	for i := range nodes.Items {
		m.patch(ctx, &nodes.Items[i], fmt.Sprintf(`{"metadata":{"labels":{%q:"cloud"}}}`, corev1.LabelTopologyZone))
	}
}

// hostAccess is a kubeconfig of the host cluster for control planes of one namespace, made as docs/another-host-cluster.md
// says: by the two files of a release and a token of the account in the namespace. It is due after eight hours.
func hostAccess(ctx context.Context, namespace string) []byte {
	GinkgoHelper()
	released := filepath.Join(settings.repository, "repository", "control-plane-kok", settings.providerVersion)
	Expect(env.run(ctx, env.kubectl, "apply", "--server-side", "--filename", filepath.Join(released, "host-cluster.yaml"))).To(Succeed(),
		"make release-manifests writes what a host cluster needs")
	content, err := os.ReadFile(filepath.Join(released, "host-cluster-namespace.yaml"))
	Expect(err).NotTo(HaveOccurred())
	dir, err := os.MkdirTemp("", "host-cluster-") // A clean-up calls this, too, in which ginkgo has no folder to give.
	Expect(err).NotTo(HaveOccurred())
	defer os.RemoveAll(dir) //nolint:errcheck // It is temporary.
	file := filepath.Join(dir, "host-cluster-namespace.yaml")
	Expect(os.WriteFile(file, bytes.ReplaceAll(content, []byte("NAMESPACE"), []byte(namespace)), 0o600)).To(Succeed())
	Expect(env.run(ctx, env.kubectl, "apply", "--server-side", "--filename", file)).To(Succeed())
	token, err := env.clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "kok-host-cluster", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](12 * 60 * 60)},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())

	host := rest.CopyConfig(env.config)
	Expect(rest.LoadTLSFiles(host)).To(Succeed())
	const name = "host"
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{name: {Server: host.Host, CertificateAuthorityData: host.CAData, TLSServerName: host.ServerName}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}},
		Contexts:  map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}}, CurrentContext: name,
	})
	Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

// hostAccessSecret is the Secret that spec.hosting.kubeconfigRef names.
const hostAccessSecret = "host-cluster"

// writeHostAccess writes that Secret into the tenant's namespace. One that is there may hold a token that expired.
func (t *tenant) writeHostAccess(ctx context.Context) {
	GinkgoHelper()
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: hostAccessSecret},
		// The key is that of Cluster API's own Secrets with kubeconfigs.
		Data: map[string][]byte{"value": hostAccess(ctx, t.Namespace)},
	}
	err := env.client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = env.client.Patch(ctx, secret, client.Merge)
	}
	Expect(err).NotTo(HaveOccurred(), "Secret %s of namespace %s", secret.Name, t.Namespace)
}
