package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// provider is one provider of the repository.
type provider struct {
	// name, kind and label identify it: clusterctl's provider name and type, and the name of its
	// folder.
	name, kind, label string
	version           string
	// kustomization is the folder that its components are built from.
	kustomization string
	// image of its manager.
	image string
	// arguments are images that its manager is told of, by the manager's flag.
	arguments map[string]string
	// components is the name of the components file.
	components string
	// metadata is the path of its metadata.yaml.
	metadata string
	// templates is the folder of the templates of Clusters, which clusterctl takes from the infrastructure
	// provider: cluster-template.yaml, cluster-template-<flavor>.yaml for each flavor, and
	// clusterclass-<name>.yaml for each ClusterClass that they name. Empty for none.
	templates string
	// files are published as they are, for people who change them, or give them to other programs.
	files []string
	// hostCluster is the folder of what another host cluster than the management cluster needs; empty for none.
	hostCluster string
}

// write writes the provider's components, metadata and templates below repository.
func (p provider) write(repository string) error {
	components, err := p.build()
	if err != nil {
		return err
	}
	metadata, err := os.ReadFile(p.metadata)
	if err != nil {
		return fmt.Errorf("read the release series: %w", err)
	}
	if err := writeFile(p.componentsPath(repository), components); err != nil {
		return err
	}
	folder := filepath.Dir(p.componentsPath(repository))
	if err := writeFile(filepath.Join(folder, "metadata.yaml"), metadata); err != nil {
		return err
	}
	if err := p.writeHostCluster(folder); err != nil {
		return err
	}
	templates, err := p.templateFiles()
	if err != nil {
		return err
	}
	for _, file := range append(templates, p.files...) {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a file that is published as it is: %w", err)
		}
		if err := writeFile(filepath.Join(folder, filepath.Base(file)), content); err != nil {
			return err
		}
	}
	return nil
}

func (p provider) writeHostCluster(folder string) error {
	if p.hostCluster == "" {
		return nil
	}
	for file, kustomization := range map[string]string{
		"host-cluster.yaml": p.hostCluster, "host-cluster-namespace.yaml": filepath.Join(p.hostCluster, "tenants"),
	} {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), kustomization)
		if err != nil {
			return fmt.Errorf("kustomize build %s: %w", kustomization, err)
		}
		content, err := resources.AsYaml()
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(folder, file), content); err != nil {
			return err
		}
	}
	return nil
}

// templateFiles are the templates of Clusters, and the classes that they name.
func (p provider) templateFiles() ([]string, error) {
	if p.templates == "" {
		return nil, nil
	}
	templates, err := filepath.Glob(filepath.Join(p.templates, "cluster-template*.yaml"))
	if err != nil {
		return nil, err
	}
	classes, err := filepath.Glob(filepath.Join(p.templates, "clusterclass-*.yaml"))
	return append(templates, classes...), err
}

func (p provider) componentsPath(repository string) string {
	return filepath.Join(repository, p.label, p.version, p.components)
}

// build runs kustomize, sets the manager's image, which is pulled only when a node lacks it, and those in its arguments.
// Variables such as ${CAPI_DIAGNOSTICS_ADDRESS:=:8443} stay for clusterctl to fill in.
func (p provider) build() ([]byte, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), p.kustomization)
	if err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w", p.kustomization, err)
	}
	managers := 0
	for _, resource := range resources.Resources() {
		if resource.GetKind() != "Deployment" {
			continue
		}
		err := resource.PipeE(
			yaml.Lookup("spec", "template", "spec", "containers", "[name=manager]"),
			yaml.Tee(yaml.SetField("image", yaml.NewStringRNode(p.image))),
			yaml.Tee(yaml.SetField("imagePullPolicy", yaml.NewStringRNode("IfNotPresent"))),
			yaml.Tee(yaml.FilterFunc(p.setArguments)),
			yaml.FilterFunc(func(found *yaml.RNode) (*yaml.RNode, error) {
				if found != nil {
					managers++
				}
				return found, nil
			}),
		)
		if err != nil {
			return nil, fmt.Errorf("set the image of Deployment %s: %w", resource.GetName(), err)
		}
	}
	if managers != 1 {
		return nil, fmt.Errorf("kustomize build %s: want one Deployment with a container named manager, got %d", p.kustomization, managers)
	}
	return resources.AsYaml()
}

// setArguments sets the images in the arguments of the manager's container.
func (p provider) setArguments(container *yaml.RNode) (*yaml.RNode, error) {
	if container == nil || len(p.arguments) == 0 {
		return container, nil
	}
	args, err := container.Pipe(yaml.Lookup("args"))
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	err = args.VisitElements(func(arg *yaml.RNode) error {
		name, _, _ := strings.Cut(strings.TrimPrefix(yaml.GetValue(arg), "--"), "=")
		if image, ok := p.arguments[name]; ok {
			set[name] = true
			arg.YNode().Value = "--" + name + "=" + image
		}
		return nil
	})
	if err == nil && len(set) != len(p.arguments) {
		err = fmt.Errorf("its manager has the flags %v of %v", set, p.arguments)
	}
	return container, err
}

// clusterctlProviders is the part of clusterctl's configuration that has it read providers from a repository. Of cert-manager it
// says nothing: clusterctl takes the one that is there, or installs one.
func clusterctlProviders(repository string, all []provider) string {
	b := &strings.Builder{}
	b.WriteString("providers:\n")
	for _, p := range all {
		fmt.Fprintf(b, "- name: %s\n  type: %s\n  url: %q\n", p.name, p.kind, "file://"+p.componentsPath(repository))
	}
	return b.String()
}

func writeFile(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
