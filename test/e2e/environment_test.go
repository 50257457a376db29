//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/inventory"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/session"
)

// manager is the Deployment of the control plane provider.
var manager = client.ObjectKey{Namespace: "kok-control-plane-system", Name: "kok-control-plane-controller-manager"}

// environment is a host cluster with the providers installed.
type environment struct {
	// proxy is what Cluster API's test framework works with.
	proxy     framework.ClusterProxy
	client    client.Client
	clientset *kubernetes.Clientset
	config    *rest.Config
	inventory *inventory.Inventory
	// lab is nil when the host cluster is another one.
	lab                 *lab.Lab
	clusterctl, kubectl string
	// network is the file with the manifests of a pod network, certManager that of cert-manager.
	network, certManager string
	// images are those that every node of the lab has, workerImages those that tenants' workers ask for.
	images, workerImages []artifacts.Image
	log                  *progress.Log
}

func newEnvironment(ctx context.Context) (*environment, error) {
	e := &environment{log: progress.New(GinkgoWriter, time.Now())}
	kubeconfig := settings.kubeconfig
	var err error
	if kubeconfig == "" {
		if kubeconfig, err = e.openLab(ctx); err != nil {
			return nil, err
		}
	} else if err := e.findPrograms(); err != nil {
		return nil, err
	}
	e.proxy = framework.NewClusterProxy("host", kubeconfig, scheme.Scheme(), framework.WithRESTConfigModifier(func(config *rest.Config) {
		config.QPS, config.Burst = 200, 400
	}))
	e.client, e.clientset, e.config = e.proxy.GetClient(), e.proxy.GetClientSet(), e.proxy.GetRESTConfig()

	installer := e.installer(settings.repository, settings.providerVersion, providers.Own(settings.programs, settings.registry, settings.tag))
	if err := installer.Install(ctx); err != nil {
		return nil, fmt.Errorf("install the providers: %w", err)
	}
	e.inventory, err = inventory.New(e.config)
	return e, err
}

// installer installs a release of the providers into the host cluster.
func (e *environment) installer(repository, version string, own []providers.Provider) *providers.Installer {
	installer := &providers.Installer{
		Client: e.client, Kubeconfig: e.proxy.GetKubeconfigPath(), Clusterctl: e.clusterctl, Repository: repository,
		Version: version, CoreVersion: artifacts.DefaultVersions().ClusterAPI, Log: e.log, Providers: own,
	}
	if e.lab != nil {
		installer.Load = func(ctx context.Context, image, program string) error { return e.lab.LoadProgram(ctx, image, program) }
	}
	return installer
}

// openLab uses the lab that is up, and its programs.
func (e *environment) openLab(ctx context.Context) (kubeconfig string, err error) {
	opened, err := session.Open(ctx, e.log)
	if err != nil {
		return "", err
	}
	e.lab = opened.Lab
	set := opened.Set
	e.clusterctl, e.kubectl, e.network, e.certManager = set.Clusterctl, set.Kubectl, set.Flannel, set.CertManager
	e.images, e.workerImages = set.Images, set.WorkerImages
	return e.lab.Kubeconfig(), nil
}

func (e *environment) findPrograms() (err error) {
	for name, path := range map[string]*string{"kubectl": &e.kubectl, "clusterctl": &e.clusterctl} {
		if *path, err = exec.LookPath(name); err != nil {
			return fmt.Errorf("an existing host cluster needs %s on this machine: %w", name, err)
		}
	}
	return nil
}

// requireLab skips a spec that looks at hosts when there are none to look at.
func requireLab() *lab.Lab {
	GinkgoHelper()
	if env.lab == nil {
		Skip("it looks at the hosts of the lab, and the host cluster is another one")
	}
	return env.lab
}

// get and listAll read from the host cluster; a connection that breaks, as on a machine that stalls, is no
// answer yet.
func get(ctx context.Context, key client.ObjectKey, object client.Object) {
	GinkgoHelper()
	Eventually(ctx, func() error { return env.client.Get(ctx, key, object) }).Should(Succeed())
}

func listAll(ctx context.Context, objects client.ObjectList, options ...client.ListOption) {
	GinkgoHelper()
	Eventually(ctx, func() error { return env.client.List(ctx, objects, options...) }).Should(Succeed())
}

// hostNodes are the nodes that may carry control planes, by name.
func (e *environment) hostNodes(ctx context.Context) map[string]corev1.Node {
	GinkgoHelper()
	all := &corev1.NodeList{}
	listAll(ctx, all, client.MatchingLabels{controlplanev1.HostNodeLabel: "true"})
	nodes := map[string]corev1.Node{}
	for _, node := range all.Items {
		nodes[node.Name] = node
	}
	return nodes
}

// internalIP is the address of a node.
func internalIP(node *corev1.Node) string {
	i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	if i < 0 {
		return ""
	}
	return node.Status.Addresses[i].Address
}

// managerUser is the user that the manager is for the API server.
func (e *environment) managerUser(ctx context.Context) string {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	get(ctx, manager, deployment)
	return "system:serviceaccount:" + manager.Namespace + ":" + deployment.Spec.Template.Spec.ServiceAccountName
}

// clusterctlConfig is what make release-manifests wrote.
func clusterctlConfig() string { return filepath.Join(settings.repository, "clusterctl.yaml") }

// run runs a program with access to the host cluster; what it prints is shown.
func (e *environment) run(ctx context.Context, program string, args ...string) error {
	cmd := e.command(ctx, program, args...)
	cmd.Stdout = e.log
	return cmd.Run()
}

// output is run for a program whose output is wanted, and may be secret: it is not shown.
func (e *environment) output(ctx context.Context, program string, args ...string) ([]byte, error) {
	return e.command(ctx, program, args...).Output()
}

func (e *environment) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	e.log.Print("$ %s %v", filepath.Base(program), args)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.proxy.GetKubeconfigPath(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	cmd.Stderr = e.log
	return cmd
}

// collect writes what explains a failure and says where it is.
func collect(ctx context.Context) {
	if env == nil || env.lab == nil {
		return
	}
	directory, err := filepath.Abs(filepath.Join(settings.artifacts, time.Now().UTC().Format("20060102T150405Z")))
	if err == nil {
		err = env.lab.Collect(ctx, directory)
	}
	fmt.Fprintf(GinkgoWriter, "\nlogs and objects of the moment of this failure: %s\n", directory)
	if err != nil {
		fmt.Fprintf(GinkgoWriter, "not all of them could be had: %v\n", err)
	}
}
