// Command release writes a local clusterctl repository: the components of Cluster API's core and
// kubeadm bootstrap providers and of the providers of this repository, the templates of Clusters, the table
// of Kubernetes versions, and a clusterctl.yaml that names them.
//
// clusterctl's layout of a local repository is described in "clusterctl Configuration File" and
// "Overrides Layer" of the Cluster API book.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

type options struct {
	// root is the top folder of this repository.
	root string
	// out is the folder that the repository and clusterctl.yaml are written to.
	out string
	// version is the version of this repository's providers, with a leading v.
	version string
	// registry and tag are those of the providers' images.
	registry, tag string
}

func main() {
	o := options{}
	cmd := &cobra.Command{
		Use:          "release",
		Short:        "Write a local clusterctl repository",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(*cobra.Command, []string) error { return run(o) },
	}
	cmd.Flags().StringVar(&o.root, "root", ".", "top folder of this repository")
	cmd.Flags().StringVar(&o.out, "out", "out", "folder to write to")
	cmd.Flags().StringVar(&o.version, "version", "v0.1.0", "version of the providers of this repository")
	cmd.Flags().StringVar(&o.registry, "image-registry", "ghcr.io/kube-on-kube", "registry and path of the providers' images")
	cmd.Flags().StringVar(&o.tag, "image-tag", "dev", "tag of the providers' images")
	if err := cmd.Execute(); err != nil {
		os.Exit(1)
	}
}

// run writes every provider and then clusterctl.yaml, so that a finished clusterctl.yaml names
// files that are there.
func run(o options) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	core, err := findModule(root, "sigs.k8s.io/cluster-api")
	if err != nil {
		return err
	}
	providers := []provider{
		{
			name: "cluster-api", kind: "CoreProvider", label: "cluster-api", version: core.Version,
			kustomization: filepath.Join(core.Dir, "core", "config", "default"),
			image:         "registry.k8s.io/cluster-api/cluster-api-controller:" + core.Version,
			components:    "core-components.yaml",
			metadata:      filepath.Join(core.Dir, "metadata.yaml"),
		},
		{
			name: "kubeadm", kind: "BootstrapProvider", label: "bootstrap-kubeadm", version: core.Version,
			kustomization: filepath.Join(core.Dir, "bootstrap", "kubeadm", "config", "default"),
			image:         "registry.k8s.io/cluster-api/kubeadm-bootstrap-controller:" + core.Version,
			components:    "bootstrap-components.yaml",
			metadata:      filepath.Join(core.Dir, "metadata.yaml"),
		},
		{
			name: "kok", kind: "ControlPlaneProvider", label: "control-plane-kok", version: o.version,
			kustomization: filepath.Join(root, "config", "controlplane", "default"),
			image:         o.registry + "/kok-controlplane-controller:" + o.tag,
			components:    "control-plane-components.yaml",
			metadata:      filepath.Join(root, "metadata.yaml"),
			versions:      filepath.Join(root, "internal", "versions", "versions.yaml"),
			hostCluster:   filepath.Join(root, "config", "host-cluster"),
		},
		{
			name: "kok", kind: "BootstrapProvider", label: "bootstrap-kok", version: o.version,
			kustomization: filepath.Join(root, "config", "bootstrap", "default"),
			image:         o.registry + "/kok-bootstrap-controller:" + o.tag,
			components:    "bootstrap-components.yaml",
			metadata:      filepath.Join(root, "metadata.yaml"),
		},
		{
			name: "idc", kind: "InfrastructureProvider", label: "infrastructure-idc", version: o.version,
			kustomization: filepath.Join(root, "config", "infrastructure", "default"),
			image:         o.registry + "/kok-infrastructure-controller:" + o.tag,
			components:    "infrastructure-components.yaml",
			metadata:      filepath.Join(root, "metadata.yaml"),
			templates:     filepath.Join(root, "templates"),
		},
	}
	repository := filepath.Join(out, "repository")
	var errs []error
	for _, p := range providers {
		if err := p.write(repository); err != nil {
			errs = append(errs, fmt.Errorf("write provider %s: %w", p.label, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	file := filepath.Join(out, "clusterctl.yaml")
	if err := writeClusterctlConfig(file, repository, providers); err != nil {
		return err
	}
	fmt.Println(file)
	return nil
}
