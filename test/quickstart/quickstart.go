package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// options is what the command line says, and what the stages find out for the ones after them.
type options struct {
	kubeconfig, repository, programs, registry, tag, providerVersion string
	template, name, namespace, version                               string
	// hostVersion is the Kubernetes version of the lab's host cluster; empty for the newest.
	hostVersion string
	started     time.Time

	log    *progress.Log
	stages *progress.Stages
	lab    *lab.Lab
	// warm is true when the lab was down and everything that it is built from was in the cache.
	warm bool
	// programs for this machine.
	clusterctl, kubectl, coreVersion string
	// network is the file with the manifests of a pod network.
	network string
	// mirror is what workers install their software from.
	mirror *mirror.Mirror
	config *rest.Config
	client client.Client
}

// quickstart runs every stage.
func (o *options) quickstart(ctx context.Context) error {
	t := &tenant.Tenant{Key: client.ObjectKey{Namespace: o.namespace, Name: o.name}, Version: o.version, Template: o.template, Workers: o.workers()}
	stages := o.hostCluster()
	if o.workers() > 0 {
		stages = append(stages, progress.Stage{Name: "add workers to the data centre", Run: o.addWorkers})
	}
	stages = append(stages,
		progress.Stage{Name: "apply a tenant", Run: func(ctx context.Context) error {
			t.Client, t.Config, t.Kubeconfig, t.Log = o.client, o.config, o.kubeconfig, o.log
			t.Clusterctl, t.Kubectl, t.SharedDisk = o.clusterctl, o.kubectl, o.lab != nil
			t.ClusterctlConfig = filepath.Join(o.repository, "clusterctl.yaml")
			variables, err := t.Variables(ctx)
			if err != nil {
				return err
			}
			if o.lab != nil {
				if err := o.addVariables(variables); err != nil {
					return err
				}
			}
			return t.Apply(ctx, variables)
		}},
		progress.Stage{Name: "wait for its control plane", Run: t.Wait})
	if o.workers() > 0 {
		stages = append(stages, o.workerStages(t)...)
	}
	stages = append(stages, progress.Stage{Name: "use it", Run: func(ctx context.Context) error {
		if err := t.Use(ctx); err != nil || o.workers() == 0 {
			return err
		}
		return t.Hello(ctx)
	}})
	if o.workers() > 0 {
		stages = append(stages, progress.Stage{Name: "kill an API server while it answers", Run: func(ctx context.Context) error { return o.kill(ctx, t) }})
	}
	if err := o.run(ctx, stages); err != nil {
		return err
	}
	o.log.Title("times")
	if err := o.stages.Table(); err != nil {
		return err
	}
	o.next()
	if o.warm {
		fmt.Printf("\nfigure quickstart_warm_seconds %.1f s\n", o.stages.Total().Seconds())
	}
	return nil
}

// kill ends an API server while a worker and a pod ask.
func (o *options) kill(ctx context.Context, t *tenant.Tenant) error {
	addresses, err := t.WorkerAddresses(ctx)
	if err != nil {
		return err
	}
	h, err := o.hostAt(addresses[0])
	if err != nil {
		return err
	}
	_, err = t.KillAPIServer(ctx, tenant.Worker{Name: h.Name, Dial: h.Dial})
	return err
}

// hostAt is the host of the lab with an address.
func (o *options) hostAt(address string) (*host.Host, error) {
	hosts, err := o.lab.Hosts()
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		if h.Address.String() == address {
			return h, nil
		}
	}
	return nil, fmt.Errorf("no host of the lab has a worker's address %s", address)
}

// providersOnly stops before the tenant.
func (o *options) providersOnly(ctx context.Context) error { return o.run(ctx, o.hostCluster()) }

func (o *options) run(ctx context.Context, stages []progress.Stage) error {
	o.log = progress.New(os.Stdout, o.started)
	o.stages = &progress.Stages{Log: o.log}
	if since := time.Since(o.started); since > time.Second {
		o.stages.Add("build the manager and its manifests", since)
	}
	return o.stages.Run(ctx, stages...)
}

// hostCluster are the stages up to a host cluster with the providers.
func (o *options) hostCluster() []progress.Stage {
	install := progress.Stage{Name: "install the providers", Run: o.install}
	if o.kubeconfig != "" {
		return []progress.Stage{{Name: "find the host cluster", Run: o.findCluster}, install}
	}
	return []progress.Stage{{Name: "bring the lab up", Run: o.labUp}, install}
}

func (o *options) labUp(ctx context.Context) error {
	l, err := lab.Open(lab.StateDirectory())
	if err != nil {
		return err
	}
	status, err := l.Status(ctx)
	if err != nil {
		return err
	}
	down := true
	for _, host := range status.Hosts {
		down = down && !host.Booted
	}
	report, err := l.Up(ctx, o.hostVersion, func(step string) { o.log.Print("%s", step) })
	if err != nil {
		return fmt.Errorf("%w\n  look next at:\n    bin/lab status\n    bin/lab collect out/lab-logs", err)
	}
	o.lab, o.kubeconfig = l, l.Kubeconfig()
	o.warm = down && report.Artifacts < 10*time.Second
	set, err := l.Artifacts(ctx, func(step string) { o.log.Print("%s", step) })
	if err != nil {
		return err
	}
	o.clusterctl, o.kubectl, o.coreVersion = set.Clusterctl, set.Kubectl, set.Versions.ClusterAPI
	o.network = set.Flannel
	return o.connect()
}

// findCluster uses the programs of this machine on a cluster that is there already.
func (o *options) findCluster(context.Context) error {
	var err error
	if o.kubectl, err = exec.LookPath("kubectl"); err != nil {
		return fmt.Errorf("an existing cluster needs kubectl on this machine (https://kubernetes.io/docs/tasks/tools): %w", err)
	}
	if o.clusterctl, err = exec.LookPath("clusterctl"); err != nil {
		return fmt.Errorf("an existing cluster needs clusterctl on this machine "+
			"(https://cluster-api.sigs.k8s.io/user/quick-start#install-clusterctl): %w", err)
	}
	o.coreVersion = artifacts.DefaultVersions().ClusterAPI
	if err := o.connect(); err != nil {
		return err
	}
	for _, provider := range o.providers() {
		for image := range provider.Images() {
			o.log.Print("using %s; its nodes pull %s", o.config.Host, image)
		}
	}
	return nil
}

// connect makes clients of the host cluster.
func (o *options) connect() error {
	var err error
	if o.config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig); err != nil {
		return fmt.Errorf("read %s: %w", o.kubeconfig, err)
	}
	o.config.QPS, o.config.Burst = 100, 200
	if o.client, err = client.New(o.config, client.Options{Scheme: scheme.Scheme()}); err != nil {
		return fmt.Errorf("reach the host cluster at %s: %w", o.config.Host, err)
	}
	return nil
}

func (o *options) install(ctx context.Context) error {
	installer := &providers.Installer{
		Client: o.client, Kubeconfig: o.kubeconfig, Clusterctl: o.clusterctl, Repository: o.repository,
		Version: o.providerVersion, CoreVersion: o.coreVersion, Providers: o.providers(), Log: o.log,
	}
	if o.lab != nil {
		installer.Load = func(ctx context.Context, image, program string) error { return o.lab.LoadProgram(ctx, image, program) }
	}
	return installer.Install(ctx)
}

func (o *options) providers() []providers.Provider {
	return providers.Own(o.programs, o.registry, o.tag)
}

// next says what to try now.
func (o *options) next() {
	o.log.Title("try next")
	commands := fmt.Sprintf(`  export KUBECONFIG=%[1]s
  alias kubectl=%[2]s clusterctl=%[3]s
  kubectl get kokcontrolplane,cluster -n %[4]s
  clusterctl describe cluster %[5]s -n %[4]s --show-conditions all
  clusterctl get kubeconfig %[5]s -n %[4]s > %[5]s.kubeconfig
  kubectl --kubeconfig %[5]s.kubeconfig get namespaces
  kubectl delete pod -n %[4]s %[5]s-etcd-data-0        # it comes back, the tenant does not notice
  kubectl delete cluster %[5]s -n %[4]s
`, o.kubeconfig, o.kubectl, o.clusterctl, o.namespace, o.name)
	if o.lab != nil {
		commands += `  bin/lab status
  bin/lab cut            # cut the link between the cloud and the data centre; bin/lab heal joins it again
  make clean-lab         # leave nothing behind
`
	}
	fmt.Fprint(o.log, commands)
}
