// Package session uses the lab that is up, as tests and benchmarks do: its host cluster, the programs of its versions,
// tenants, and workers that go again.
package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/tenant"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
)

// Session is one use of the lab.
type Session struct {
	*lab.Lab
	// Set is the lab's programs and manifests.
	Set *artifacts.Set
	// Client and Config are for the host cluster.
	Client client.Client
	Config *rest.Config
	Log    *progress.Log

	// former are the hosts that were there before.
	former []*host.Host
}

// Open finds the lab; one that is not up is an error.
func Open(ctx context.Context, log *progress.Log) (*Session, error) {
	opened, err := lab.Open(lab.StateDirectory())
	if err != nil {
		return nil, err
	}
	s := &Session{Lab: opened, Log: log}
	status, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	if len(status.Hosts) == 0 || status.Cluster != nil {
		return nil, errors.Join(errors.New("the lab is not up: make lab-up"), status.Cluster)
	}
	if s.former, err = s.Hosts(); err != nil {
		return nil, err
	}
	if s.Set, err = s.Artifacts(ctx, func(step string) { log.Print("%s", step) }); err != nil {
		return nil, err
	}
	if s.Config, err = s.RESTConfig(); err != nil {
		return nil, err
	}
	if s.Client, err = client.New(s.Config, client.Options{Scheme: scheme.Scheme()}); err != nil {
		return nil, fmt.Errorf("reach the host cluster: %w", err)
	}
	return s, nil
}

// Tenant is a tenant of the newest version, in a namespace of its own name. repository is what make release-manifests wrote.
func (s *Session) Tenant(name, template, repository string) *tenant.Tenant {
	return &tenant.Tenant{
		Key: client.ObjectKey{Namespace: name, Name: name}, Version: artifacts.DefaultVersions().Host, Template: template,
		ClusterctlConfig: filepath.Join(repository, "clusterctl.yaml"), Clusterctl: s.Set.Clusterctl, Kubectl: s.Set.Kubectl,
		Client: s.Client, Config: s.Config, Kubeconfig: s.Kubeconfig(), Log: s.Log, SharedDisk: true,
	}
}

// AddedWorkers are the lab's workers that were not there before.
func (s *Session) AddedWorkers() ([]*host.Host, error) { return s.WorkersSince(s.former) }

// RemoveAddedWorkers removes them, all that it can.
func (s *Session) RemoveAddedWorkers(ctx context.Context) error {
	added, err := s.AddedWorkers()
	failed := []error{err}
	for _, h := range added {
		failed = append(failed, s.RemoveHost(ctx, h.Name))
	}
	return errors.Join(failed...)
}
