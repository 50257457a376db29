//go:build e2e

package capi

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
)

// infrastructure is clusterctl's name of the provider whose folder of the repository has the templates.
const infrastructure = "idc"

// intervals bound what specs wait for, by ten times of what is usual in the lab, and say how often they look.
func intervals() map[string][]string {
	return map[string][]string{
		"default/wait-cluster":             {"4m", "1s"},
		"default/wait-control-plane":       {"5m", "1s"},
		"default/wait-worker-nodes":        {"8m", "2s"},
		"default/wait-machine-remediation": {"8m", "2s"},
		"default/wait-machine-upgrade":     {"10m", "2s"},
		"default/wait-delete-cluster":      {"8m", "1s"},
	}
}

// variables are those of the templates: a control plane with one of each, on hosts that have their software and share the machine's
// kernel.
func variables(version string) map[string]string {
	return map[string]string{
		e2e.KubernetesVersion: version, "KUBE_PROXY_CONNTRACK": "None", "SOFTWARE_MODE": "Preinstalled",
		"ETCD_REPLICAS": "1", "ETCD_EVENTS_REPLICAS": "1", "CONTROLLER_MANAGER_REPLICAS": "1", "SCHEDULER_REPLICAS": "1",
	}
}

// configure makes the configuration of Cluster API's specs, with a repository of clusterctl that has every flavour.
func (e *environment) configure(ctx context.Context, version string) error {
	files, err := e.writeFlavours()
	if err != nil {
		return err
	}
	released, err := filepath.Abs(filepath.Join(settings.repository, "repository", "infrastructure-"+infrastructure, settings.providerVersion))
	if err != nil {
		return err
	}
	files = append(files, clusterctl.Files{SourcePath: filepath.Join(released, "metadata.yaml"), TargetName: "metadata.yaml"})
	e.config = &clusterctl.E2EConfig{
		ManagementClusterName: e.proxy.GetName(),
		Variables:             variables(version),
		Intervals:             intervals(),
		Providers: []clusterctl.ProviderConfig{{
			Name: infrastructure, Type: "InfrastructureProvider", Files: files,
			Versions: []clusterctl.ProviderVersionSource{{
				Name: settings.providerVersion, Type: clusterctl.URLSource, Value: filepath.Join(released, "infrastructure-components.yaml"),
			}},
		}},
	}
	e.clusterctlConfig = clusterctl.CreateRepository(ctx, clusterctl.CreateRepositoryInput{
		RepositoryFolder: filepath.Join(e.artifacts, "repository"), E2EConfig: e.config,
	})
	return nil
}

// writeFlavours writes all templates to one folder.
func (e *environment) writeFlavours() ([]clusterctl.Files, error) {
	flavours, err := Flavours(settings.templates, settings.forSpecs)
	if err != nil {
		return nil, err
	}
	directory := filepath.Join(e.artifacts, "templates")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	var files []clusterctl.Files
	for _, name := range slices.Sorted(maps.Keys(flavours)) {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, flavours[name], 0o644); err != nil {
			return nil, fmt.Errorf("write a template for clusterctl's repository: %w", err)
		}
		files = append(files, clusterctl.Files{SourcePath: path, TargetName: name})
	}
	return files, nil
}
