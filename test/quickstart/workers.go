package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

const (
	// allWorkers is how many workers the tenant has in the lab.
	allWorkers = 2
	// bareWorkers is how many of them are hosts with nothing but their distribution, which install their software themselves,
	// unless the command line says otherwise. The others have theirs already.
	bareWorkers = 2
	// system is the distribution of bare hosts.
	system = "debian-12"
)

// workers is how many workers the tenant has: none on an existing host cluster, of whose data centre
// nothing is known.
func (o *options) workers() int {
	if o.kubeconfig != "" && o.lab == nil {
		return 0
	}
	return allWorkers
}

func (o *options) checkWorkers() error {
	if o.bare < 0 || o.bare > allWorkers {
		return fmt.Errorf("--bare-workers=%d: give a number from 0 to %d", o.bare, allWorkers)
	}
	return nil
}

// addWorkers makes the lab have workers. Those that have their software already get the image that no registry has; bare ones
// get a mirror, which has it, and a KOKSoftware that describes what else they install from there.
func (o *options) addWorkers(ctx context.Context) error {
	if err := o.checkTenant(ctx); err != nil {
		return err
	}
	if o.bare > 0 {
		if err := o.addBare(ctx); err != nil {
			return err
		}
	}
	if o.bare == o.workers() {
		return nil
	}
	pool := o.pool()
	pool.Programs = []string{filepath.Join(o.programs, "kok-apiserver-lb")}
	pool.Load = func(ctx context.Context, names ...string) error {
		return o.lab.LoadProgram(ctx, tenant.HelloImage, o.hello(), names...)
	}
	_, err := pool.Ensure(ctx, o.workers()-o.bare)
	return err
}

// mode is where the workers of the template have their software from.
func (o *options) mode() bootstrapv1.SoftwareMode {
	if o.bare > 0 {
		return bootstrapv1.SoftwareDescribed
	}
	return bootstrapv1.SoftwarePreinstalled
}

// checkTenant refuses a tenant that was made with workers of the other kind: templates of workers cannot change.
func (o *options) checkTenant(ctx context.Context) error {
	template := &bootstrapv1.KOKConfigTemplate{}
	key := client.ObjectKey{Namespace: o.namespace, Name: o.name + "-workers"}
	err := o.client.Get(ctx, key, template)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get KOKConfigTemplate %s: %w", key, err)
	}
	if has := template.Spec.Template.Spec.Software.Mode; err == nil && has != o.mode() {
		return fmt.Errorf("the workers of tenant %s/%s have software.mode %s, and now it would be %s: delete the tenant first, by\n  kubectl --kubeconfig %s delete --namespace %[1]s cluster %[2]s",
			o.namespace, o.name, has, o.mode(), o.kubeconfig)
	}
	return nil
}

// addBare has the mirror gather images while hosts boot.
func (o *options) addBare(ctx context.Context) error {
	wait, err := o.ownMirror().Start(ctx, o.lab, filepath.Join(o.programs, "lab"), func(step string) { o.log.Print("%s", step) })
	if err != nil {
		return err
	}
	if _, err := o.pool().EnsureBare(ctx, system, o.bare); err != nil {
		return err
	}
	if o.mirror, err = wait(ctx); err != nil {
		return err
	}
	o.log.Print("the mirror %s has what they install, and the images of their pods", o.mirror.URL)
	// A webhook whose manager became ready a moment ago may not be reachable yet.
	return o.log.Wait(ctx, "the host cluster to accept a KOKSoftware of "+o.version, 30*time.Second, []string{
		"kubectl --namespace kok-bootstrap-system get pods,endpointslices",
	}, func(ctx context.Context) (bool, string, error) {
		return true, "", workers.Describe(ctx, o.client, o.mirror, o.namespace, o.version)
	})
}

func (o *options) pool() *workers.Pool {
	return &workers.Pool{Lab: o.lab, Client: o.client, Namespace: o.namespace, Log: o.log}
}

func (o *options) hello() string { return filepath.Join(o.programs, "hello") }

// ownMirror has the programs of this checkout as a release.
func (o *options) ownMirror() mirror.Own {
	return mirror.Own{
		Sources:       mirror.Sources{Kubernetes: []string{o.version}, Programs: o.programs, ReleaseVersion: o.providerVersion},
		ProgramImages: map[string]string{tenant.HelloImage: o.hello()},
	}
}

// addVariables adds those of the template that workers in the lab need.
func (o *options) addVariables(variables map[string]string) error {
	if o.bare == 0 {
		maps.Copy(variables, workers.PreinstalledVariables())
		return nil
	}
	bare, err := workers.BareVariables(o.mirror)
	maps.Copy(variables, bare)
	// Hosts of the namespace that have their software already are none for them.
	variables["WORKER_HOST_SELECTOR"] = workers.SystemLabel + ": " + system
	return err
}

// preinstalled are the workers beside bare ones.
func (o *options) preinstalled() tenant.Preinstalled {
	if o.bare == 0 {
		return tenant.Preinstalled{} // All are the template's own.
	}
	return tenant.Preinstalled{Count: o.workers() - o.bare, WithoutLabel: workers.SystemLabel}
}

// workerStages are those after the tenant's control plane is there.
func (o *options) workerStages(t *tenant.Tenant) []progress.Stage {
	return []progress.Stage{
		{Name: "install a pod network", Run: func(ctx context.Context) error { return t.InstallNetwork(ctx, o.network) }},
		{Name: "wait for its workers", Run: func(ctx context.Context) error {
			if o.bare > 0 {
				o.log.Print("%d of %d workers are bare: cloud-init installs containerd, kubelet and kok-apiserver-lb, as the KOKSoftware says", o.bare, t.Workers)
			}
			if err := t.WaitWorkers(ctx); err != nil {
				return err
			}
			return o.showSoftware(ctx, t)
		}},
	}
}

// showSoftware prints what each bare worker installed.
func (o *options) showSoftware(ctx context.Context, t *tenant.Tenant) error {
	addresses, err := t.WorkerAddresses(ctx)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		h, err := o.hostAt(address)
		if err != nil {
			return err
		}
		if h.System == "" {
			continue
		}
		installed, err := workers.Installed(ctx, h)
		if err != nil {
			return err
		}
		o.log.Print("%s, %s alone before, installed %s", h.Name, h.System, installed)
	}
	return nil
}
