package hostcluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// interval between looks at something that is about to be ready.
const interval = 100 * time.Millisecond

// cluster is a host cluster in the making.
type cluster struct {
	Config
	*credentials
	client kubernetes.Interface
	rest   *rest.Config
}

// Bring makes the hosts a Kubernetes cluster, or repairs what is missing of one, and returns when every node is Ready,
// Services are served on each, and storage and cert-manager work. An error names the host and the service.
func Bring(ctx context.Context, cfg Config) error {
	c, err := open(cfg)
	if err != nil {
		return err
	}
	if err := c.bringControlPlane(ctx); err != nil {
		return err
	}
	group, groupContext := errgroup.WithContext(ctx)
	for _, h := range cfg.Hosts {
		group.Go(func() error { return c.join(groupContext, h) })
	}
	group.Go(func() error { return c.applyManifests(groupContext) })
	group.Go(func() error { return c.applyCertManager(groupContext) })
	if err := group.Wait(); err != nil {
		return err
	}
	c.progress("host cluster: %d nodes Ready", len(cfg.Hosts))
	return c.waitWorkloads(ctx)
}

// JoinNode makes one more host a node of a cluster that is up; cfg.Hosts has all hosts, with the new one.
func JoinNode(ctx context.Context, cfg Config, h *host.Host) error {
	c, err := open(cfg)
	if err != nil {
		return err
	}
	if err := c.join(ctx, h); err != nil {
		return err
	}
	c.progress("node %s Ready", h.Name)
	return c.waitWorkloads(ctx)
}

// open reads or makes the authorities and writes the administrator's kubeconfig.
func open(cfg Config) (*cluster, error) {
	controlPlane, err := cfg.controlPlane()
	if err != nil {
		return nil, err
	}
	credentials, err := newCredentials(pkiDir(cfg.StateDir), cfg.network(), controlPlane)
	if err != nil {
		return nil, fmt.Errorf("make the host cluster's certificates: %w", err)
	}
	kubeconfig, err := credentials.kubeconfig("admin", adminUser, "system:masters")
	if err != nil {
		return nil, err
	}
	if err := replaceFile(KubeconfigPath(cfg.StateDir), kubeconfig, 0o600); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	return &cluster{Config: cfg, credentials: credentials, client: client, rest: config}, err
}

// bringControlPlane starts etcd and the control plane, and waits until the API is ready.
func (c *cluster) bringControlPlane(ctx context.Context) error {
	etcd, apiserver, rest, err := controlPlaneServices(c.credentials)
	if err != nil {
		return err
	}
	// Started together: each tries until what it needs is there, and systemd starts one again that gave up.
	for _, services := range [][]service{etcd, apiserver} {
		if err := start(ctx, c.credentials.controlPlane, services...); err != nil {
			return err
		}
	}
	c.progress("host cluster: etcd and kube-apiserver start on %s", c.credentials.controlPlane.Name)
	if err := c.waitAPI(ctx); err != nil {
		return err
	}
	return start(ctx, c.credentials.controlPlane, rest...)
}

func (c *cluster) waitAPI(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		last = c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the host cluster's API at %s (see: lab exec %s -- journalctl -u kube-apiserver -u etcd): %w",
			c.endpoint, c.credentials.controlPlane.Name, errors.Join(err, last))
	}
	return nil
}

// join starts a host's node services and waits until the node is Ready, labelled, and serves Services.
func (c *cluster) join(ctx context.Context, h *host.Host) error {
	services, err := nodeServices(c.credentials, h)
	if err != nil {
		return err
	}
	// containerd first: a host that is older than an image gets it before a pod asks for it, and kubelet would end
	// and be started again without it.
	if err := start(ctx, h, services[0]); err != nil {
		return err
	}
	if err := h.WaitContainerd(ctx); err != nil {
		return err
	}
	if err := c.Set.LoadImages(ctx, h, func(step string) { c.progress("%s: %s", h.Name, step) }); err != nil {
		return fmt.Errorf("on %s: %w", h.Name, err)
	}
	if err := start(ctx, h, services[1:]...); err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, interval, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = c.nodeUsable(ctx, h)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for node %s (see: lab exec %s -- journalctl -u kubelet -u kube-proxy -u containerd): %w",
			h.Name, h.Name, errors.Join(err, last))
	}
	return nil
}

// nodeUsable returns what the node still lacks.
func (c *cluster) nodeUsable(ctx context.Context, h *host.Host) error {
	node, err := c.describeNode(ctx, h)
	if err != nil {
		return err
	}
	if err := nodeReady(node); err != nil {
		return err
	}
	// The Node may say what was true before its host lost its power.
	if err := c.kubeletHealthy(ctx, h); err != nil {
		return err
	}
	return proxyHealthy(ctx, h)
}

// kubeletHealthy asks the kubelet itself, over the path that logs and exec take.
func (c *cluster) kubeletHealthy(ctx context.Context, h *host.Host) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request := c.client.CoreV1().RESTClient().Get().Resource("nodes").Name(h.Name).SubResource("proxy").Suffix("healthz")
	if err := request.Do(ctx).Error(); err != nil {
		return fmt.Errorf("ask kubelet on %s: %w", h.Name, err)
	}
	return nil
}

func nodeReady(node *corev1.Node) error {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
		if condition.Type == corev1.NodeReady {
			return fmt.Errorf("node %s is not Ready: %s", node.Name, condition.Message)
		}
	}
	return fmt.Errorf("node %s has not said whether it is Ready", node.Name)
}

// proxyHealthy asks kube-proxy whether it has written the Services' rules.
func proxyHealthy(ctx context.Context, h *host.Host) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://%s:%d/healthz", h.Address, proxyHealthPort)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask kube-proxy on %s: %w", h.Name, err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("kube-proxy on %s is not healthy: %s", h.Name, response.Status)
	}
	return nil
}
