//go:build envtest

package controllers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	agentapp "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app"
	agentoptions "sigs.k8s.io/apiserver-network-proxy/cmd/agent/app/options"
	serverapp "sigs.k8s.io/apiserver-network-proxy/cmd/server/app"
	serveroptions "sigs.k8s.io/apiserver-network-proxy/cmd/server/app/options"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/balancer"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/addon"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/addons/konnectivity"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// konnectivityTenant is an API server that reaches webhooks and nodes by konnectivity only, with the arguments and
// files that tenants have, but for places on this machine.
type konnectivityTenant struct {
	t      *testing.T
	issued *issued
	folder string
	// serverArgs and agentArgs are as rendered.
	serverArgs, agentArgs []string
	socket                string
	environment           *envtest.Environment
	client                client.Client
	// guardPort is where the webhook of guard listens.
	guardPort int32
	// agentPort is where the server of each host listens for agents, and local where the agent's load
	// balancer does.
	agentPort, local string
}

func startKonnectivityTenant(t *testing.T) *konnectivityTenant {
	t.Helper()
	g := NewWithT(t)
	// Paths of Unix sockets are short.
	folder, err := os.MkdirTemp("", "kok")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(os.RemoveAll(folder)).To(Succeed()) })
	k := &konnectivityTenant{t: t, issued: issue(t, "blue", "", "guard.default.svc", "localhost"), folder: folder, socket: filepath.Join(folder, "server.sock")}
	k.serverArgs = podOf(t, k.issued, kubeapiserver.Component).InitContainers[0].Args
	for name, content := range k.issued.data[names.KubeAPIServer] {
		k.write(name, content)
	}
	k.write("ca.crt", k.issued.keys.ClusterCA.Bundle)

	k.startAPI(renderedSelector(t, k.issued))
	objects, err := konnectivity.Addon.Objects(&addon.Input{Server: "127.0.0.1:6443", ImageRepository: "registry.k8s.io", KonnectivityTag: "v0.34.0"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = tenant.Apply(t.Context(), k.client, objects)
	g.Expect(err).NotTo(HaveOccurred())
	k.agentArgs = addon.Find[*appsv1.DaemonSet](objects).Spec.Template.Spec.Containers[0].Args
	k.agentPort = freePort(t)
	k.local = k.balance()
	return k
}

// startAPI runs the API server with an egress selector configuration; without any if that is empty.
func (k *konnectivityTenant) startAPI(selector string) {
	k.t.Helper()
	g := NewWithT(k.t)
	k.environment = &envtest.Environment{}
	// Addresses of Services are such that this machine can listen on.
	arguments := k.environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "127.251.0.0/16")
	if selector != "" {
		selector = strings.ReplaceAll(selector, "/run/konnectivity/server.sock", k.socket)
		arguments.Set("egress-selector-config-file", k.write("egress-selector.yaml", []byte(selector)))
	}
	stop, err := interrupt.Guard(func() error { _, err := k.environment.Start(); return err }, k.environment.Stop)
	g.Expect(err).NotTo(HaveOccurred())
	k.t.Cleanup(func() { g.Expect(stop()).To(Succeed()) })
	k.client, err = client.New(k.environment.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
}

// renderedSelector is the egress selector configuration that API servers of tenants read.
func renderedSelector(t *testing.T, of *issued) string {
	t.Helper()
	rendered, err := kubeapiserver.Component.Objects(kubeapiserver.Component.Inputs(of.in))
	if err != nil {
		t.Fatal(err)
	}
	return addon.Find[*corev1.ConfigMap](rendered).Data["egress-selector.yaml"]
}

// balance runs a worker's load balancer over the two hosts.
func (k *konnectivityTenant) balance() (port string) {
	g := NewWithT(k.t)
	set, err := backends.NewSet([]string{hosts["host-1"] + ":1", hosts["host-2"] + ":1"}, nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	listener := loopback.Listen(k.t)
	go balancer.New(set, balancer.DefaultTiming, logr.Discard()).
		Serve(balancer.Listener{TCPListener: listener, BackendPort: k.agentPort})
	_, port, err = net.SplitHostPort(listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	return port
}

// workerAddress is the address of the worker.
const workerAddress = "127.252.0.1"

// hosts are the addresses of the host nodes.
var hosts = map[string]string{"host-1": "127.0.0.2", "host-2": "127.0.0.3"}

func (k *konnectivityTenant) write(name string, content []byte) string {
	path := filepath.Join(k.folder, name)
	NewWithT(k.t).Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
	return path
}

// startServer runs a server until the function that it returns is called.
func (k *konnectivityTenant) startServer(id, socket string) (stop func()) {
	g := NewWithT(k.t)
	user, err := k.environment.AddUser(envtest.User{Name: konnectivity.ServerUser}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := user.KubeConfig()
	g.Expect(err).NotTo(HaveOccurred())
	o := serveroptions.NewProxyRunOptions()
	g.Expect(o.Flags().Parse(replaced(k.serverArgs, map[string]string{
		"agent-bind-address": hosts[id], "agent-port": k.agentPort,
		"admin-port": freePort(k.t), "health-port": freePort(k.t),
		"cluster-cert": filepath.Join(k.folder, "konnectivity-server.crt"), "cluster-key": filepath.Join(k.folder, "konnectivity-server.key"),
		"kubeconfig": k.write("server-"+id, kubeconfig), "uds-name": socket,
		"server-id": id,
	}))).To(Succeed())
	return k.run(func(stopped <-chan struct{}) error { return (&serverapp.Proxy{}).Run(o, stopped) })
}

func (k *konnectivityTenant) startAgent() {
	g := NewWithT(k.t)
	config := k.environment.Config
	clientset, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	token := func(name string, audiences ...string) string {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
		answer, err := clientset.CoreV1().ServiceAccounts("kube-system").CreateToken(k.t.Context(), "konnectivity-agent", request, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return k.write(name, []byte(answer.Status.Token))
	}
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"a": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {TokenFile: token("api-token")}},
		Contexts:       map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}},
		CurrentContext: "a",
	})
	g.Expect(err).NotTo(HaveOccurred())
	o := agentoptions.NewGrpcProxyAgentOptions()
	g.Expect(o.Flags().Parse(replaced(k.agentArgs, map[string]string{
		"admin-server-port": freePort(k.t), "health-server-port": freePort(k.t), "proxy-server-port": k.local,
		"agent-identifiers": "host=worker&host=" + workerAddress,
		"ca-cert":           filepath.Join(k.folder, "ca.crt"), "kubeconfig": k.write("agent", kubeconfig),
		"service-account-token-path": token("server-token", "system:konnectivity-server"),
	}))).To(Succeed())
	k.run(func(stopped <-chan struct{}) error { return (&agentapp.Agent{}).Run(o, make(chan struct{}), stopped) })
}

// run runs a program until the function that it returns, or the end of the test, stops it.
func (k *konnectivityTenant) run(program func(<-chan struct{}) error) (stop func()) {
	stopped, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- program(stopped) }()
	var done atomic.Bool
	stop = func() {
		if done.CompareAndSwap(false, true) {
			close(stopped)
			NewWithT(k.t).Eventually(ended, time.Minute).Should(Receive(BeNil()))
		}
	}
	k.t.Cleanup(stop)
	return stop
}

// replaced are arguments of which some have another value. How much is logged is an option of the programs
// alone.
func replaced(args []string, values map[string]string) []string {
	var out []string
	for _, arg := range args {
		if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); values[name] == "" && name != "v" {
			out = append(out, arg)
		}
	}
	for name, value := range values {
		out = append(out, "--"+name+"="+value)
	}
	return out
}

func freePort(t *testing.T) string {
	t.Helper()
	listener := loopback.Listen(t)
	_ = listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// holders are the servers that say by a lease that they are there.
func (k *konnectivityTenant) holders(ctx context.Context) ([]string, error) {
	list := &coordinationv1.LeaseList{}
	err := k.client.List(ctx, list, client.InNamespace("kok-konnectivity"))
	var holders []string
	for i := range list.Items {
		holders = append(holders, ptr.Deref(list.Items[i].Spec.HolderIdentity, ""))
	}
	return holders, err
}

// connections is how many servers the agent says that it is connected to.
func connections() (float64, error) {
	families, err := prometheus.DefaultGatherer.Gather()
	for _, family := range families {
		if family.GetName() == "konnectivity_network_proxy_agent_open_server_connections" {
			return family.GetMetric()[0].GetGauge().GetValue(), err
		}
	}
	return 0, err
}

// The server and the agent of the release that is installed take the arguments that are rendered, and
// find each other with the rights and certificates that tenants have.
func TestWebhooksAndNodesAreReachedByKonnectivity(t *testing.T) {
	sample.OneIn(t, 4, "it builds konnectivity, and the journey in the lab uses it too")
	g := NewWithT(t)
	eventually := func(what any) AsyncAssertion { return g.Eventually(t.Context(), what).WithTimeout(2 * time.Minute) }
	k := startKonnectivityTenant(t)
	asked := k.webhook()
	k.kubelet()

	// The API serves all else, and says no to what needs an agent.
	eventually(k.create).Should(MatchError(ContainSubstring("failed calling webhook")))
	first := k.startServer("host-1", k.socket)
	eventually(k.holders).Should(ConsistOf("host-1"))
	g.Expect(k.create(t.Context())).To(MatchError(ContainSubstring("failed calling webhook")))
	g.Expect(asked.Load()).To(BeZero())
	_, err := k.logs(t.Context())
	g.Expect(err).To(HaveOccurred())

	k.startAgent()
	asks := func(ctx context.Context) (int64, error) {
		before := asked.Load()
		err := k.create(ctx)
		return asked.Load() - before, err
	}
	eventually(asks).Should(Equal(int64(1)))
	g.Expect(k.logs(t.Context())).To(Equal("/containerLogs/kube-system/speaker/c"))
	// A name in the URL of a webhook is resolved by the agent.
	k.guardByURL(fmt.Sprintf("https://localhost:%d/", k.guardPort))
	// An API server learns of a webhook some moments after it was configured.
	eventually(asks).Should(Equal(int64(2)), "the webhook that is a Service, and the one that is a URL")

	// Another host: nothing starts anew.
	k.startServer("host-2", filepath.Join(k.folder, "other.sock"))
	eventually(connections).Should(Equal(2.0))
	eventually(k.holders).Should(ConsistOf("host-1", "host-2"))
	g.Expect(k.create(t.Context())).To(Succeed())

	// One that stops takes its lease along; one that comes back is found again.
	first()
	eventually(k.holders).Should(ConsistOf("host-2"))
	eventually(connections).Should(Equal(1.0))
	g.Expect(k.create(t.Context())).To(MatchError(ContainSubstring("failed calling webhook")))
	k.startServer("host-1", k.socket)
	eventually(connections).Should(Equal(2.0))
	eventually(k.create).Should(Succeed())
}
