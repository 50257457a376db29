//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/running"
	quickstart "github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
)

// creation bounds the creation and every repair of a control plane: ten times what is usual.
const creation = 4 * time.Minute

// componentNames are the components that have pods.
var componentNames = []string{names.EtcdData, names.EtcdEvents, names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler}

// tenant is a tenant cluster in a namespace of its own.
type tenant struct {
	client.ObjectKey
	version string
	// mode is how its control plane is hosted; the usual one when it is not set.
	mode mode
	// edit, if it is set, changes the control plane before it is made, where the template has no variable. The mode is the
	// usual one then.
	edit func(*controlplanev1.KOKControlPlane)
	// variables of the template.
	variables map[string]string
	// workers is how many the template with workers makes; none for a control plane alone.
	workers int
	// template is the setting with another template than the usual one.
	template *string
	// class is the setting with the ClusterClass that the template needs.
	class *string
	// prepare, if it is set, puts into the new namespace what the template needs.
	prepare func(context.Context)
	// managedBy, if it is set, is the management cluster that the tenant was moved to.
	managedBy client.Client

	access *rest.Config
	api    *kubernetes.Clientset
}

// newTenant is one whose workers have their software already, unless variables say otherwise.
func newTenant(name, version string, variables map[string]string) *tenant {
	all := map[string]string{"SOFTWARE_MODE": "Preinstalled"}
	maps.Copy(all, variables)
	return &tenant{ObjectKey: client.ObjectKey{Namespace: "e2e-" + name, Name: name}, version: version, variables: all}
}

// single are the variables of a control plane with one of each.
func single() map[string]string {
	return map[string]string{
		"ETCD_REPLICAS": "1", "ETCD_EVENTS_REPLICAS": "1", "CONTROLLER_MANAGER_REPLICAS": "1", "SCHEDULER_REPLICAS": "1",
	}
}

// removeAfter removes tenants when the specs of a container are over. It is a cleanup and no AfterAll:
// that would come before the cleanups of the last spec, which mend what the spec broke.
func removeAfter(tenants ...*tenant) {
	BeforeAll(func() {
		DeferCleanup(func(ctx SpecContext) {
			for _, t := range tenants {
				if !settings.keep {
					t.remove(ctx)
				}
			}
		}, NodeTimeout(2*creation))
	})
}

// remove deletes the tenant, and its namespace, if they are there. It unpauses what a move left paused: nobody would
// delete that.
func (t *tenant) remove(ctx context.Context) {
	GinkgoHelper()
	cluster := t.clusterObject()
	Eventually(ctx, func() error { return client.IgnoreNotFound(unpause(ctx, env.client, cluster)) }).WithTimeout(creation).
		Should(Succeed(), "Cluster API's webhooks answer again, whose pod may have been on a host node that was cut off or had no power")
	Expect(client.IgnoreNotFound(env.client.Delete(ctx, cluster))).To(Succeed())
	Eventually(ctx, func() error { return env.client.Get(ctx, t.ObjectKey, cluster) }).WithTimeout(creation).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "Cluster %s is not deleted", t.ObjectKey)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}}
	Expect(client.IgnoreNotFound(env.client.Delete(ctx, namespace))).To(Succeed())
	Eventually(ctx, func() error { return env.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace) }).WithTimeout(creation).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "namespace %s is not deleted", t.Namespace)
}

func unpause(ctx context.Context, management client.Client, cluster *clusterv1.Cluster) error {
	return management.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":null}}`)))
}

// create makes the tenant as a person does, and waits until every part of it is ready.
func (t *tenant) create(ctx context.Context) {
	GinkgoHelper()
	t.remove(ctx)
	Expect(env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace}})).To(Succeed())
	if t.class != nil {
		Expect(env.run(ctx, env.kubectl, "apply", "--server-side", "--namespace", t.Namespace, "--filename", *t.class)).To(Succeed())
	}
	if t.prepare != nil {
		t.prepare(ctx)
	}
	q := t.quickstart()
	Expect(q.Apply(ctx, t.variables)).To(Succeed())
	Expect(q.Wait(ctx)).To(Succeed())
	t.connect(ctx)
	t.expectHealthy(ctx)
}

func (t *tenant) quickstart() *quickstart.Tenant {
	template := settings.template
	switch {
	case t.template != nil:
		template = *t.template
	case t.workers > 0:
		template = settings.workersTemplate
	}
	q := &quickstart.Tenant{
		Key: t.ObjectKey, Version: t.version, Workers: t.workers, Template: template, ClusterctlConfig: clusterctlConfig(),
		Clusterctl: env.clusterctl, Kubectl: env.kubectl,
		Client: env.client, Config: env.config, Kubeconfig: env.proxy.GetKubeconfigPath(), Log: env.log, SharedDisk: true,
	}
	q.Edit = t.edit
	if t.mode != (mode{}) {
		q.Edit = t.mode.edit
	}
	return q
}

// connect makes clients of the tenant from the kubeconfig that Cluster API gives to people.
func (t *tenant) connect(ctx context.Context) {
	GinkgoHelper()
	proxy := env.proxy.GetWorkloadCluster(ctx, t.Namespace, t.Name, framework.WithRESTConfigModifier(func(config *rest.Config) {
		config.QPS, config.Burst, config.Timeout = 50, 100, 20*time.Second
	}))
	t.access, t.api = proxy.GetRESTConfig(), proxy.GetClientSet()
	proxy.Dispose(ctx)
}

// clusterObject names the Cluster.
func (t *tenant) clusterObject() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name}}
}

func (t *tenant) cluster(ctx context.Context) *clusterv1.Cluster {
	GinkgoHelper()
	return framework.GetClusterByName(ctx, framework.GetClusterByNameInput{Getter: env.client, Name: t.Name, Namespace: t.Namespace})
}

func (t *tenant) controlPlane(ctx context.Context) *controlplanev1.KOKControlPlane {
	GinkgoHelper()
	controlPlane := &controlplanev1.KOKControlPlane{}
	Eventually(ctx, func() error { return t.management().Get(ctx, t.ObjectKey, controlPlane) }).Should(Succeed())
	return controlPlane
}

// management is a client of the tenant's management cluster.
func (t *tenant) management() client.Client {
	if t.managedBy != nil {
		return t.managedBy
	}
	return env.client
}

// secret reads a Secret of the tenant's namespace.
func (t *tenant) secret(ctx context.Context, name string) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{}
	get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: name}, secret)
	return secret
}

// pods lists the tenant's pods; of one component when it is named.
func (t *tenant) pods(ctx context.Context, component string) ([]corev1.Pod, error) {
	labels := client.MatchingLabels(names.Labels(t.ObjectKey))
	if component != "" {
		labels = names.ComponentLabels(t.ObjectKey, component)
	}
	list := &corev1.PodList{}
	err := env.client.List(ctx, list, client.InNamespace(t.Namespace), labels)
	return list.Items, err
}

// wantedPods is how many pods each component should have.
func (t *tenant) wantedPods(ctx context.Context) map[string]int {
	GinkgoHelper()
	spec := t.controlPlane(ctx).Spec
	apiServers := len(env.hostNodes(ctx))
	if spec.KubeAPIServer.IsDeployment() {
		apiServers = int(*spec.Replicas)
	}
	events := int(*spec.Etcd.Events.Replicas)
	if spec.Etcd.EventsInData() {
		events = 0
	}
	return map[string]int{
		names.EtcdData:              int(*spec.Etcd.Data.Replicas),
		names.EtcdEvents:            events,
		names.KubeAPIServer:         apiServers,
		names.KubeControllerManager: int(*spec.KubeControllerManager.Replicas),
		names.KubeScheduler:         int(*spec.KubeScheduler.Replicas),
	}
}

// healthy are the conditions of a control plane of which every part works.
var healthy = []string{
	conditionsv1.CertificatesAvailableCondition, conditionsv1.EtcdClusterHealthyCondition, conditionsv1.InitializedCondition,
	conditionsv1.AvailableCondition, conditionsv1.ControlPlaneComponentsHealthyCondition,
}

// expectHealthy waits until every pod that there should be is there and ready, no other is left, and
// the conditions say so.
func (t *tenant) expectHealthy(ctx context.Context) {
	GinkgoHelper()
	wanted := t.wantedPods(ctx)
	Eventually(ctx, func(g Gomega) {
		for component, count := range wanted {
			pods, err := t.pods(ctx, component)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(pods).To(HaveLen(count), "pods of %s", component)
			for _, pod := range pods {
				g.Expect(pod.DeletionTimestamp).To(BeNil(), "pod %s is being deleted", pod.Name)
				g.Expect(isReady(&pod)).To(BeTrue(), "pod %s is not ready", pod.Name)
			}
		}
		controlPlane := &controlplanev1.KOKControlPlane{}
		g.Expect(env.client.Get(ctx, t.ObjectKey, controlPlane)).To(Succeed())
		g.Expect(controlPlane.Status.ObservedGeneration).To(Equal(controlPlane.Generation))
		for _, name := range healthy {
			condition := conditions.Get(controlPlane, name)
			g.Expect(condition).NotTo(BeNil(), "condition %s", name)
			g.Expect(condition.Status).To(Equal(metav1.ConditionTrue), "%s: %s", name, condition.Message)
		}
	}).WithTimeout(creation).Should(Succeed(), "control plane %s", t.ObjectKey)
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// snapshot is what runs of the tenant, by pod.
func (t *tenant) snapshot(ctx context.Context) map[string]running.Pod {
	GinkgoHelper()
	pods, err := t.pods(ctx, "")
	Expect(err).NotTo(HaveOccurred())
	Expect(pods).NotTo(BeEmpty())
	return running.Of(pods)
}

// etcd is a client of one of the tenant's etcd clusters, with the certificate that its API servers use.
func (t *tenant) etcd(ctx context.Context, component string) *clientv3.Client {
	GinkgoHelper()
	block := etcd.Data.PortsOf(t.ports(ctx))
	if component == names.EtcdEvents {
		block = etcd.Events.PortsOf(t.ports(ctx))
	}
	services := &corev1.ServiceList{}
	listAll(ctx, services, client.InNamespace(t.Namespace), client.MatchingLabels(names.ComponentLabels(t.ObjectKey, component)))
	Expect(services.Items).NotTo(BeEmpty(), "Services of %s", component)
	var endpoints []string
	for _, service := range services.Items {
		endpoints = append(endpoints, "https://"+net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(block.Client))))
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 10 * time.Second, Context: ctx, Logger: zap.NewNop(), TLS: t.etcdTLS(ctx),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(etcd.Close)
	return etcd
}

// etcdTLS is how its API servers connect to etcd.
func (t *tenant) etcdTLS(ctx context.Context) *tls.Config {
	GinkgoHelper()
	certs := t.secret(ctx, names.Certs(t.Name, names.KubeAPIServer))
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(certs.Data[t.fileOf(ctx, "etcd-cafile")])).To(BeTrue())
	leaf := strings.TrimSuffix(t.fileOf(ctx, "etcd-certfile"), ".crt")
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{keyPair(certs, leaf)}}
}

// fileOf is the file that an argument of its API servers names, without its folder.
func (t *tenant) fileOf(ctx context.Context, argument string) string {
	GinkgoHelper()
	pods, err := t.pods(ctx, names.KubeAPIServer)
	Expect(err).NotTo(HaveOccurred())
	Expect(pods).NotTo(BeEmpty())
	for _, arg := range pods[0].Spec.Containers[0].Args {
		if file, found := strings.CutPrefix(arg, "--"+argument+"="); found {
			return path.Base(file)
		}
	}
	Fail("an API server has no argument " + argument)
	return ""
}

// keyPair is a certificate with its key, by the names that the controller's Secrets have for both.
func keyPair(secret *corev1.Secret, name string) tls.Certificate {
	GinkgoHelper()
	pair, err := tls.X509KeyPair(secret.Data[name+".crt"], secret.Data[name+".key"])
	Expect(err).NotTo(HaveOccurred(), "%s in Secret %s", name, secret.Name)
	return pair
}

// keys are the keys that an etcd cluster holds.
func keys(ctx context.Context, etcd *clientv3.Client, prefix string) []string {
	GinkgoHelper()
	found, err := etcd.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	Expect(err).NotTo(HaveOccurred())
	list := make([]string, 0, len(found.Kvs))
	for _, pair := range found.Kvs {
		list = append(list, string(pair.Key))
	}
	return list
}

// address of a port.
func address(host string, port int32) string { return net.JoinHostPort(host, fmt.Sprint(port)) }
