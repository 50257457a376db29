package tenant

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Use uses the tenant's API and shows what it is made of.
func (t *Tenant) Use(ctx context.Context) error {
	return t.with(ctx, func(tenant *kubernetes.Clientset) error {
		if err := t.write(ctx, tenant); err != nil {
			return err
		}
		if err := t.showEtcd(ctx); err != nil {
			return err
		}
		return t.showPods(ctx)
	})
}

// with calls a function with a client of the tenant's API.
func (t *Tenant) with(ctx context.Context, use func(*kubernetes.Clientset) error) error {
	reach, err := newReach(t.Config)
	if err != nil {
		return err
	}
	t.reach = reach
	defer reach.close()
	config, err := t.restConfig(ctx)
	if err != nil {
		return err
	}
	tenant, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client of the tenant: %w", err)
	}
	return use(tenant)
}

// kubeconfig is the administrator's access, from the Secret that Cluster API names.
func (t *Tenant) kubeconfig(ctx context.Context) ([]byte, error) {
	kubeconfig := &corev1.Secret{}
	key := client.ObjectKey{Namespace: t.Key.Namespace, Name: secret.Name(t.Key.Name, secret.Kubeconfig)}
	if err := t.Client.Get(ctx, key, kubeconfig); err != nil {
		return nil, fmt.Errorf("get the tenant's kubeconfig, Secret %s: %w", key, err)
	}
	return kubeconfig.Data[secret.KubeconfigDataName], nil
}

// access is the kubeconfig as a client's configuration and its TLS.
func (t *Tenant) access(ctx context.Context) (*rest.Config, *tls.Config, error) {
	kubeconfig, err := t.kubeconfig(ctx)
	if err != nil {
		return nil, nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("read the kubeconfig of %s: %w", t.Key, err)
	}
	trust, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificates in the kubeconfig of %s: %w", t.Key, err)
	}
	return config, trust, nil
}

// restConfig is the administrator's access by a way that leads there from here.
func (t *Tenant) restConfig(ctx context.Context) (*rest.Config, error) {
	config, trust, err := t.access(ctx)
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("read the server in the kubeconfig of %s: %w", t.Key, err)
	}
	pods, err := t.pods(ctx, names.KubeAPIServer)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("no kube-apiserver pod of %s", t.Key)
	}
	address, err := t.reach.address(ctx, server.Host, trust, &pods[0], containerPort(&pods[0], "https"))
	if err != nil {
		return nil, err
	}
	if address != server.Host {
		t.Log.Print("%s has no route from here: using the tenant through the host cluster's API", config.Host)
		config.Host = "https://" + address
	}
	config.Timeout = 10 * time.Second
	return config, nil
}

// containerPort is the container port of the given name.
func containerPort(pod *corev1.Pod, name string) int {
	for _, port := range pod.Spec.Containers[0].Ports {
		if port.Name == name {
			return int(port.ContainerPort)
		}
	}
	return 0
}

// write asks for the version, writes a namespace and a ConfigMap, and reads the ConfigMap back.
func (t *Tenant) write(ctx context.Context, tenant *kubernetes.Clientset) error {
	server := tenant.CoreV1().RESTClient().Get().URL().Host
	version, err := tenant.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the tenant at %s for its version: %w", server, err)
	}
	t.Log.Print("the tenant at %s is Kubernetes %s", server, version.GitVersion)
	if version.GitVersion != t.Version {
		return fmt.Errorf("the tenant is Kubernetes %s, want %s", version.GitVersion, t.Version)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: helloNamespace}}
	if _, err := tenant.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace hello in the tenant: %w", err)
	}
	written := time.Now().Format(time.RFC3339Nano)
	hello := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "quickstart-"}, Data: map[string]string{"written": written}}
	if hello, err = tenant.CoreV1().ConfigMaps(helloNamespace).Create(ctx, hello, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a ConfigMap in the tenant's namespace hello: %w", err)
	}
	read, err := tenant.CoreV1().ConfigMaps(helloNamespace).Get(ctx, hello.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read ConfigMap hello/%s back: %w", hello.Name, err)
	}
	if read.Data["written"] != written {
		return fmt.Errorf("read ConfigMap hello/%s back: it holds %q, %q was written", hello.Name, read.Data["written"], written)
	}
	t.Log.Print("wrote ConfigMap hello/%s and read it back", hello.Name)
	return nil
}

// pods are those of one component, or of the whole control plane when component is empty.
func (t *Tenant) pods(ctx context.Context, component string) ([]corev1.Pod, error) {
	labels := client.MatchingLabels(names.Labels(t.Key))
	if component != "" {
		labels = names.ComponentLabels(t.Key, component)
	}
	list := &corev1.PodList{}
	if err := t.Client.List(ctx, list, client.InNamespace(t.Key.Namespace), labels); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", t.Key, err)
	}
	return list.Items, nil
}

// showPods prints a table of the control plane's pods.
func (t *Tenant) showPods(ctx context.Context) error {
	pods, err := t.pods(ctx, "")
	if err != nil {
		return err
	}
	t.Log.Title("the control plane's pods (label " + clusterv1.ClusterNameLabel + "=" + t.Key.Name + ")")
	table := tabwriter.NewWriter(t.Log, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "POD\tNODE\tREADY\tRESTARTS\tAGE")
	for _, pod := range pods {
		restarts := int32(0)
		for _, container := range pod.Status.ContainerStatuses {
			restarts += container.RestartCount
		}
		ready := "no"
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				ready = "yes"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", pod.Name, pod.Spec.NodeName, ready, strconv.Itoa(int(restarts)),
			duration.HumanDuration(time.Since(pod.CreationTimestamp.Time)))
	}
	return table.Flush()
}
