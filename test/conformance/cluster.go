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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/session"
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
	*session.Session
	tenant *tenant.Tenant
	// images are for workers.
	images []artifacts.Image
	// access is a folder for the kubeconfig.
	access string
}

// open finds the lab.
func open(ctx context.Context, o *options, log *progress.Log, images []artifacts.Image) (*cluster, error) {
	s, err := session.Open(ctx, log)
	if err != nil {
		return nil, err
	}
	c := &cluster{options: o, Session: s, tenant: s.Tenant(name, o.template, o.repository), images: images}
	c.tenant.Workers = workerCount
	return c, nil
}

// prepare makes the tenant with its workers, and returns the file with the administrator's kubeconfig.
func (c *cluster) prepare(ctx context.Context) (string, error) {
	// What an interrupted run left in a tenant would fail its specs.
	if err := c.tenant.Delete(ctx); err != nil {
		return "", err
	}
	if err := c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return "", fmt.Errorf("make namespace %s: %w", name, err)
	}
	pool := &workers.Pool{
		Lab: c.Lab, Client: c.Client, Namespace: name, Log: c.Log,
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
	variables["SOFTWARE_MODE"] = "Preinstalled"
	if err := c.tenant.Apply(ctx, variables); err != nil {
		return "", err
	}
	if err := c.reachPods(ctx); err != nil {
		return "", err
	}
	if err := c.tenant.Wait(ctx); err != nil {
		return "", err
	}
	if err := c.tenant.InstallNetwork(ctx, c.Set.Flannel); err != nil {
		return "", err
	}
	if err := c.tenant.WaitWorkers(ctx); err != nil {
		return "", err
	}
	return c.writeKubeconfig(ctx)
}

// reachPods lets API servers call webhooks in pods, which they have no route to: a conformant cluster has to.
func (c *cluster) reachPods(ctx context.Context) error {
	controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: c.tenant.Key.Namespace, Name: c.tenant.Key.Name}}
	konnectivity := fmt.Sprintf(`{"spec":{"addons":{"konnectivity":{"mode":%q}}}}`, controlplanev1.AddonManaged)
	if err := c.Client.Patch(ctx, controlPlane, client.RawPatch(types.MergePatchType, []byte(konnectivity))); err != nil {
		return fmt.Errorf("set spec.addons.konnectivity of KOKControlPlane %s: %w", c.tenant.Key, err)
	}
	return nil
}

func (c *cluster) loadImages(ctx context.Context, hosts ...string) error {
	for _, image := range c.images {
		if err := c.LoadBuilt(ctx, image, hosts...); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) writeKubeconfig(ctx context.Context) (string, error) {
	kubeconfig, err := secret.Get(ctx, c.Client, c.tenant.Key, secret.Kubeconfig)
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
	return errors.Join(append(problems, c.RemoveAddedWorkers(ctx))...)
}
