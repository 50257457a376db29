package main

import (
	"context"
	"maps"
	"path/filepath"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

const (
	// labWorkers is how many workers the tenant has in the lab.
	labWorkers = 2
	// system is the distribution of their hosts, which have nothing else: they install their software themselves.
	system = "debian-12"
)

// workers is how many workers the tenant has: none on an existing host cluster, of whose data centre
// nothing is known.
func (o *options) workers() int {
	if o.kubeconfig != "" && o.lab == nil {
		return 0
	}
	return labWorkers
}

// addWorkers makes the lab have bare hosts, a mirror that has what they install and the images of their pods, and a KOKSoftware that kok
// makes of it. The mirror gathers images while hosts boot.
func (o *options) addWorkers(ctx context.Context) error {
	wait, err := o.ownMirror().Start(ctx, o.lab, filepath.Join(o.programs, "lab"), func(step string) { o.log.Print("%s", step) })
	if err != nil {
		return err
	}
	if _, err := o.pool().EnsureBare(ctx, system, o.workers()); err != nil {
		return err
	}
	if o.mirror, err = wait(ctx); err != nil {
		return err
	}
	o.log.Print("the mirror %s has what they install, and the images of their pods", o.mirror.URL)
	described, err := workers.Describe(ctx, filepath.Join(o.programs, "kok"), o.mirror, o.namespace, o.version, func(command string) { o.log.Print("$ %s", command) })
	if err != nil {
		return err
	}
	// A webhook whose manager became ready a moment ago may not be reachable yet.
	return o.log.Wait(ctx, "the host cluster to accept a KOKSoftware of "+o.version, 30*time.Second, []string{
		"kubectl --namespace kok-bootstrap-system get pods,endpointslices",
	}, func(ctx context.Context) (bool, string, error) {
		return true, "", workers.EnsureSoftware(ctx, o.client, described)
	})
}

func (o *options) pool() *workers.Pool {
	return &workers.Pool{Lab: o.lab, Client: o.client, Namespace: o.namespace, Log: o.log}
}

func (o *options) hello() string { return filepath.Join(o.programs, "hello") }

// ownMirror has the programs of this checkout as a release.
func (o *options) ownMirror() mirror.Own {
	images := providers.OnWorkers(o.programs, o.registry, o.tag)
	images[tenant.HelloImage] = o.hello()
	return mirror.Own{
		Sources:       mirror.Sources{Kubernetes: []string{o.version}, Programs: o.programs, ReleaseVersion: o.providerVersion},
		ProgramImages: images,
	}
}

// addVariables adds those of the template that workers in the lab need.
func (o *options) addVariables(variables map[string]string) error {
	bare, err := workers.BareVariables(o.mirror)
	maps.Copy(variables, bare)
	// Hosts of the namespace that have their software already are none for them.
	variables["WORKER_HOST_SELECTOR"] = workers.SystemLabel + ": " + system
	return err
}

// workerStages are those after the tenant's control plane is there.
func (o *options) workerStages(t *tenant.Tenant) []progress.Stage {
	return []progress.Stage{
		{Name: "install a pod network", Run: func(ctx context.Context) error { return t.InstallNetwork(ctx, o.network) }},
		{Name: "wait for its workers", Run: func(ctx context.Context) error {
			o.log.Print("the hosts are bare: cloud-init installs containerd, kubelet and kok-apiserver-lb, as the KOKSoftware says")
			if err := t.WaitWorkers(ctx); err != nil {
				return err
			}
			return o.showSoftware(ctx, t)
		}},
	}
}

// showSoftware prints what each worker installed.
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
		installed, err := workers.Installed(ctx, h)
		if err != nil {
			return err
		}
		o.log.Print("%s, %s alone before, installed %s", h.Name, h.System, installed)
	}
	return nil
}
