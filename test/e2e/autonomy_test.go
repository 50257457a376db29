//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/status"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/processes"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
	quickstart "github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
)

// withoutTheCloud uses a tenant in the data centre while the link to the host cluster's own control plane is cut.
func withoutTheCloud(t *tenant) {
	It("run new pods, and notice nothing when an API server is killed, while the cloud is away (A13)", Label(full), func(ctx SpecContext) {
		worker := t.worker(ctx)
		api, err := t.quickstart().From(ctx, quickstart.Worker{Name: worker.Name, Dial: worker.Dial})
		Expect(err).NotTo(HaveOccurred())
		pods, err := t.pods(ctx, names.KubeAPIServer)
		Expect(err).NotTo(HaveOccurred())
		victim, _ := quickstart.APIServer(&pods[0])
		Expect(env.lab.Cut(ctx)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(env.lab.Heal(ctx)).To(Succeed()) })

		requests := &load.Requests{}
		asking, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { requests.Run(asking, 20, func(int) kubernetes.Interface { return api }) })
		DeferCleanup(func() { stop(); done.Wait() })
		count, err := processes.Kill(victim)
		Expect(err).NotTo(HaveOccurred())
		Expect(count).To(BeNumerically(">", 0))
		pod, err := api.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "without-the-cloud-"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "hello", Image: quickstart.HelloImage, Args: []string{"serve", ":8081"}}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(g Gomega) {
			now, err := api.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Status.Phase).To(Equal(corev1.PodRunning))
			g.Expect(requests.Attempts()).To(BeNumerically(">", 200))
		}).WithTimeout(join).Should(Succeed(), "pod %s, and enough requests", pod.Name)
		stop()
		done.Wait()
		Expect(requests.Failures(0, load.Forever)).To(BeEmpty())
		Expect(api.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})).To(Succeed())
		Expect(env.lab.Heal(ctx)).To(Succeed())
		t.expectHealthy(ctx)
		t.expectWorkers(ctx, t.workers)
	}, SpecTimeout(2*join))
}

// servesAnAdmin runs the load balancer where an admin would: on a machine that is neither of the host cluster nor of
// the tenant, with a kubeconfig that names one API server.
func servesAnAdmin(t *tenant) {
	It("as little as an admin's machine with the same load balancer (A11)", Label(full), func(ctx SpecContext) {
		const listen, statusAddress = "127.0.0.1:26443", "127.0.0.1:26444"
		program := filepath.Join(settings.programs, "kok-apiserver-lb")
		// The seed is the API server that is killed.
		pods, err := t.pods(ctx, names.KubeAPIServer)
		Expect(err).NotTo(HaveOccurred())
		kubeconfig := t.kubeconfigFor(t.apiAt(ctx, &pods[len(pods)-1]))
		var output bytes.Buffer
		serve := exec.CommandContext(context.WithoutCancel(ctx), program, "--kubeconfig="+kubeconfig, "--listen-address="+listen, "--status-address="+statusAddress)
		serve.Env = []string{"HOME=" + GinkgoT().TempDir()}
		serve.Stdout, serve.Stderr = &output, GinkgoWriter
		Expect(serve.Start()).To(Succeed())
		DeferCleanup(func() {
			Expect(serve.Process.Signal(syscall.SIGTERM)).To(Succeed())
			Expect(serve.Wait()).To(Succeed())
			Expect(output.String()).To(HavePrefix("Server to use: https://" + listen + "\n"))
		})
		Eventually(ctx, func(g Gomega) {
			report, err := status.Fetch(ctx, statusAddress)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(report.Ready()).To(Equal(len(pods)))
		}).Should(Succeed(), "all API servers are found from one")

		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, listen)
		}
		requests, err := t.quickstart().KillAPIServer(ctx, quickstart.Worker{Name: "the admin's machine", Dial: dial})
		Expect(err).NotTo(HaveOccurred())
		Expect(requests.Attempts()).To(BeNumerically(">", 20))
		Expect(requests.Failures(0, load.Forever)).To(BeEmpty())
		t.expectHealthy(ctx)
	}, SpecTimeout(join))
}

// kubeconfigFor writes the administrator's kubeconfig for one way to the API, and returns its path.
func (t *tenant) kubeconfigFor(access *rest.Config) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"tenant": {Server: access.Host, TLSServerName: access.ServerName, CertificateAuthorityData: t.access.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			"admin": {ClientCertificateData: t.access.CertData, ClientKeyData: t.access.KeyData},
		},
		Contexts:       map[string]*clientcmdapi.Context{"tenant": {Cluster: "tenant", AuthInfo: "admin"}},
		CurrentContext: "tenant",
	}, path)).To(Succeed())
	return path
}
