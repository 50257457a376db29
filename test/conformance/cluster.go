package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

const (
	name = "conformance"
	// workerCount is what a conformant cluster has at least.
	workerCount = 2
	// cleanLimit bounds the removal of the tenant and its workers.
	cleanLimit = 15 * time.Minute
)

// cluster is the tenant that is tested.
type cluster struct {
	*options
	lab    *lab.Lab
	client client.Client
	log    *progress.Log
	tenant *tenant.Tenant
	// network is the file with the manifests of a pod network.
	network string
	// images are for workers.
	images []artifacts.Image
	// former are the hosts that the lab had.
	former []*host.Host
	// access is a folder for the kubeconfig.
	access string
}

// open finds the lab.
func open(ctx context.Context, o *options, log *progress.Log, images []artifacts.Image) (*cluster, error) {
	c := &cluster{options: o, log: log, images: images}
	var err error
	if c.lab, err = lab.Open(lab.StateDirectory()); err != nil {
		return nil, err
	}
	if c.former, err = c.lab.Hosts(); err != nil {
		return nil, err
	}
	cache, err := artifacts.CacheDir()
	if err != nil {
		return nil, err
	}
	set, err := artifacts.Ensure(ctx, cache, func(step string) { log.Print("%s", step) })
	if err != nil {
		return nil, err
	}
	config, err := c.lab.RESTConfig()
	if err != nil {
		return nil, err
	}
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme} {
		if err := add(types); err != nil {
			return nil, err
		}
	}
	if c.client, err = client.New(config, client.Options{Scheme: types}); err != nil {
		return nil, fmt.Errorf("reach the host cluster (is the lab up?): %w", err)
	}
	c.network = set.Flannel
	c.tenant = &tenant.Tenant{
		Key: client.ObjectKey{Namespace: name, Name: name}, Version: set.Versions.Host, Workers: workerCount, Template: o.template,
		ClusterctlConfig: filepath.Join(o.repository, "clusterctl.yaml"), Clusterctl: set.Clusterctl, Kubectl: set.Kubectl,
		Client: c.client, Config: config, Kubeconfig: c.lab.Kubeconfig(), Log: log,
	}
	return c, nil
}

// prepare makes the tenant with its workers, and returns the file with the administrator's kubeconfig.
func (c *cluster) prepare(ctx context.Context) (string, error) {
	// What an interrupted run left in a tenant would fail its specs.
	if err := c.tenant.Delete(ctx); err != nil {
		return "", err
	}
	if err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return "", fmt.Errorf("make namespace %s: %w", name, err)
	}
	pool := &workers.Pool{
		Lab: c.lab, Client: c.client, Namespace: name, Log: c.log,
		Programs: []string{filepath.Join(c.programs, "kok-apiserver-lb")},
		Load:     c.loadImages,
	}
	if _, err := pool.Ensure(ctx, workerCount); err != nil {
		return "", err
	}
	variables, err := c.tenant.Variables(ctx)
	if err != nil {
		return "", err
	}
	variables["KUBE_PROXY_CONNTRACK"] = "None" // the lab's hosts share this machine's kernel
	if err := c.tenant.Apply(ctx, variables); err != nil {
		return "", err
	}
	if err := c.tenant.Wait(ctx); err != nil {
		return "", err
	}
	if err := c.tenant.InstallNetwork(ctx, c.network); err != nil {
		return "", err
	}
	if err := c.tenant.WaitWorkers(ctx); err != nil {
		return "", err
	}
	return c.writeKubeconfig(ctx)
}

func (c *cluster) loadImages(ctx context.Context, hosts ...string) error {
	for _, image := range c.images {
		if err := c.lab.LoadBuilt(ctx, image, hosts...); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) writeKubeconfig(ctx context.Context) (string, error) {
	kubeconfig, err := secret.Get(ctx, c.client, c.tenant.Key, secret.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("get the kubeconfig of %s: %w", c.tenant.Key, err)
	}
	if c.access, err = os.MkdirTemp("", "kok-conformance-"); err != nil {
		return "", err
	}
	file := filepath.Join(c.access, "kubeconfig")
	return file, os.WriteFile(file, kubeconfig.Data[secret.KubeconfigDataName], 0o600)
}

// close deletes the tenant and takes the added hosts away.
func (c *cluster) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	var problems []error
	if c.access != "" {
		problems = append(problems, os.RemoveAll(c.access))
	}
	if err := c.tenant.Delete(ctx); err != nil {
		return errors.Join(append(problems, err)...)
	}
	added, err := c.lab.WorkersSince(c.former)
	problems = append(problems, err)
	for _, h := range added {
		problems = append(problems, c.lab.RemoveHost(ctx, h.Name))
	}
	return errors.Join(problems...)
}
