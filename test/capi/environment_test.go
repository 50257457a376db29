//go:build e2e

package capi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/providers"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/session"
)

// environment is the lab with the providers installed, as Cluster API's specs want it.
type environment struct {
	*session.Session
	proxy  framework.ClusterProxy
	config *clusterctl.E2EConfig
	// clusterctlConfig is the file that names the repository with all flavours.
	clusterctlConfig string
	// network is the content of the file with a pod network's manifests.
	network []byte
	// artifacts is the folder for what specs write.
	artifacts string
	// namespaces are those that specs made.
	namespaces []string
}

func newEnvironment(ctx context.Context) (*environment, error) {
	opened, err := session.Open(ctx, progress.New(GinkgoWriter, time.Now()))
	if err != nil {
		return nil, err
	}
	e := &environment{Session: opened}
	if e.network, err = os.ReadFile(e.Set.Flannel); err != nil {
		return nil, fmt.Errorf("read the manifests of the pod network: %w", err)
	}
	if e.artifacts, err = filepath.Abs(settings.artifacts); err != nil {
		return nil, err
	}
	types := runtime.NewScheme()
	framework.TryAddDefaultSchemes(types)
	if err := scheme.AddToScheme(types); err != nil {
		return nil, err
	}
	proxy := framework.NewClusterProxy("host", e.Kubeconfig(), types, framework.WithRESTConfigModifier(func(config *rest.Config) {
		config.QPS, config.Burst = 200, 400
	}))
	e.proxy = &sparingProxy{ClusterProxy: proxy, client: &sparingClient{proxy.GetClient()}}

	installer := &providers.Installer{
		Client: e.Client, Kubeconfig: e.Kubeconfig(), Clusterctl: e.Set.Clusterctl, Repository: settings.repository,
		Version: settings.providerVersion, CoreVersion: e.Set.Versions.ClusterAPI, Log: e.Log,
		Providers: providers.Own(settings.programs, settings.registry, settings.tag),
		Load:      func(ctx context.Context, image, program string) error { return e.LoadProgram(ctx, image, program) },
	}
	if err := installer.Install(ctx); err != nil {
		return nil, fmt.Errorf("install the providers: %w", err)
	}
	return e, e.configure(ctx, artifacts.DefaultVersions().Host)
}

// collect writes what explains a failure and says where it is.
func (e *environment) collect(ctx context.Context) {
	directory := filepath.Join(e.artifacts, "failures", time.Now().UTC().Format("20060102T150405Z"))
	err := e.Collect(ctx, directory)
	fmt.Fprintf(GinkgoWriter, "\nlogs and objects of the moment of this failure: %s\n", directory)
	if err != nil {
		fmt.Fprintf(GinkgoWriter, "not all of them could be had: %v\n", err)
	}
}
