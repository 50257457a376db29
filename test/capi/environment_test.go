//go:build e2e

package capi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
)

// environment is the lab with the providers installed, as Cluster API's specs want it.
type environment struct {
	lab *lab.Lab
	// former are the lab's hosts that were there before the suite.
	former []*host.Host
	proxy  framework.ClusterProxy
	client client.Client
	config *clusterctl.E2EConfig
	// clusterctlConfig is the file that names the repository with all flavours.
	clusterctlConfig string
	// network is the content of the file with a pod network's manifests.
	network []byte
	// artifacts is the folder for what specs write.
	artifacts string
	// namespaces are those that specs made.
	namespaces []string
	log        *progress.Log
}

func newEnvironment(ctx context.Context) (*environment, error) {
	e := &environment{log: progress.New(GinkgoWriter, time.Now())}
	set, err := e.openLab(ctx)
	if err != nil {
		return nil, err
	}
	if e.network, err = os.ReadFile(set.Flannel); err != nil {
		return nil, fmt.Errorf("read the manifests of the pod network: %w", err)
	}
	if e.artifacts, err = filepath.Abs(settings.artifacts); err != nil {
		return nil, err
	}
	types := runtime.NewScheme()
	framework.TryAddDefaultSchemes(types)
	builder := runtime.NewSchemeBuilder(controlplanev1.AddToScheme, bootstrapv1.AddToScheme, infrav1.AddToScheme)
	if err := builder.AddToScheme(types); err != nil {
		return nil, err
	}
	proxy := framework.NewClusterProxy("host", e.lab.Kubeconfig(), types, framework.WithRESTConfigModifier(func(config *rest.Config) {
		config.QPS, config.Burst = 200, 400
	}))
	e.client = proxy.GetClient()
	e.proxy = &sparingProxy{ClusterProxy: proxy, client: &sparingClient{e.client}}

	installer := &providers.Installer{
		Client: e.client, Kubeconfig: e.lab.Kubeconfig(), Clusterctl: set.Clusterctl, Repository: settings.repository,
		Version: settings.providerVersion, CoreVersion: set.Versions.ClusterAPI, Log: e.log,
		Providers: providers.Own(settings.programs, settings.registry, settings.tag),
		Load:      func(ctx context.Context, image, program string) error { return e.lab.LoadProgram(ctx, image, program) },
	}
	if err := installer.Install(ctx); err != nil {
		return nil, fmt.Errorf("install the providers: %w", err)
	}
	return e, e.configure(ctx, set.Versions.Host)
}

// openLab uses the lab that is up, and its programs.
func (e *environment) openLab(ctx context.Context) (*artifacts.Set, error) {
	var err error
	if e.lab, err = lab.Open(lab.StateDirectory()); err != nil {
		return nil, err
	}
	status, err := e.lab.Status(ctx)
	if err != nil {
		return nil, err
	}
	if len(status.Hosts) == 0 || status.Cluster != nil {
		return nil, errors.Join(errors.New("the lab is not up: make lab-up"), status.Cluster)
	}
	if e.former, err = e.lab.Hosts(); err != nil {
		return nil, err
	}
	cache, err := artifacts.CacheDir()
	if err != nil {
		return nil, err
	}
	return artifacts.Ensure(ctx, cache, func(step string) { e.log.Print("%s", step) })
}

// collect writes what explains a failure and says where it is.
func (e *environment) collect(ctx context.Context) {
	directory := filepath.Join(e.artifacts, "failures", time.Now().UTC().Format("20060102T150405Z"))
	err := e.lab.Collect(ctx, directory)
	fmt.Fprintf(GinkgoWriter, "\nlogs and objects of the moment of this failure: %s\n", directory)
	if err != nil {
		fmt.Fprintf(GinkgoWriter, "not all of them could be had: %v\n", err)
	}
}
