package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/oci"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/signing"
)

// release is what is published: everything that an installation needs, in one folder.
type release struct {
	// root is the top folder of this repository, out the folder of the release.
	root, out string
	// version is that of the release, with a leading v. registry is where its images are unless the user says otherwise.
	version, registry string
	// linkerFlags are those that every program is linked with.
	linkerFlags string
	// packager is the program that makes packages of Linux distributions; it has a module of its own, in hack/tools/packages.
	packager string
	// key signs the release; nil leaves it unsigned.
	key *signing.Key
	// made is the time that all files of the release have: that of the commit, so that the same commit gives the same bytes.
	made time.Time
}

// architectures of Linux that the release is for, as Go names them.
var architectures = []string{"amd64", "arm64"}

// managers are the programs that run as images, by their folder.
var managers = map[string]string{
	"controlplane": "kok-controlplane-controller", "bootstrap": "kok-bootstrap-controller", "infrastructure": "kok-infrastructure-controller",
}

// agent is the program in the pods of etcd's members, which runs as an image, too, and its folder.
const (
	agent       = "kok-etcd-agent"
	agentFolder = "controlplane/etcd/agent/cmd/kok-etcd-agent"
)

// nodeKeys is the program on the nodes of tenants whose cluster CA rotates, which runs as an image, and its folder.
const (
	nodeKeys       = "kok-node-keys"
	nodeKeysFolder = "bootstrap/nodekeys/cmd/kok-node-keys"
)

// balancer is the program that runs on workers and on machines of administrators, and its folder.
const (
	balancer       = "kok-apiserver-lb"
	balancerFolder = "bootstrap/apiserverlb/cmd/kok-apiserver-lb"
	balancerUnit   = "bootstrap/apiserverlb/unit/kok-apiserver-lb.service"
	adminUnit      = "bootstrap/apiserverlb/unit/kok-apiserver-lb@.service"
)

// tool is the command line program of administrators, and its folder. Under the other names it is a plugin of kubectl, and
// what kubectl asks for completions of that plugin.
const (
	tool       = "kok"
	toolFolder = "cmd/kok"
)

var toolNames = []string{"kubectl-kok", "kubectl_complete-kok"}

// installer is the program that installs the software of workers, and its folder.
const (
	installer       = "kok-software"
	installerFolder = "bootstrap/software/cmd/kok-software"
)

// build compiles the programs, and writes the release.
func (r release) build(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	programs, err := r.compile(ctx)
	if err != nil {
		return err
	}
	return r.write(ctx, programs)
}

// write writes the release of programs, and signs it. SHA256SUMS comes last: a folder that has it is complete.
func (r release) write(ctx context.Context, programs []binary) error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	digests, err := r.writeImages(programs)
	if err != nil {
		return err
	}
	if err := r.writeBalancer(ctx, programs); err != nil {
		return err
	}
	if err := r.writeTool(programs); err != nil {
		return err
	}
	if err := r.writeInstaller(programs); err != nil {
		return err
	}
	for _, p := range programs {
		if err := writeMaterials(filepath.Join(r.out, p.title()+".cdx.json"), p, r.version); err != nil {
			return err
		}
	}
	if err := r.writeRepository(digests); err != nil {
		return err
	}
	if err := r.writeImageList(digests); err != nil {
		return err
	}
	return r.writeSums()
}

// check finds what clusterctl would find after everything is published.
func (r release) check() error {
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version {
		return fmt.Errorf("VERSION=%s: write it as v0.2.0", r.version)
	}
	data, err := os.ReadFile(filepath.Join(r.root, "metadata.yaml"))
	if err != nil {
		return err
	}
	var metadata struct {
		ReleaseSeries []struct{ Major, Minor int } `json:"releaseSeries"`
	}
	if err := yaml.Unmarshal(data, &metadata); err != nil {
		return fmt.Errorf("read metadata.yaml: %w", err)
	}
	for _, series := range metadata.ReleaseSeries {
		if fmt.Sprintf("v%d.%d", series.Major, series.Minor) == semver.MajorMinor(r.version) {
			return nil
		}
	}
	return fmt.Errorf("VERSION=%s: metadata.yaml has no releaseSeries for %s, and clusterctl refuses such a release: add it there",
		r.version, semver.MajorMinor(r.version))
}

// binary is a program that was compiled for one platform.
type binary struct {
	name, system, architecture string
	// file is where it is.
	file string
}

func (p binary) title() string { return p.name + "-" + p.system + "-" + p.architecture }

// compile builds every program for every platform, into a folder beside the release.
func (r release) compile(ctx context.Context) ([]binary, error) {
	type source struct{ folder, name, system string }
	sources := []source{
		{balancerFolder, balancer, "linux"}, {balancerFolder, balancer, "darwin"}, {toolFolder, tool, "linux"}, {toolFolder, tool, "darwin"},
		{installerFolder, installer, "linux"}, {agentFolder, agent, "linux"}, {nodeKeysFolder, nodeKeys, "linux"},
	}
	for folder, name := range managers {
		sources = append(sources, source{folder, name, "linux"})
	}
	slices.SortFunc(sources, func(a, b source) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.system, b.system)) })
	var programs []binary
	for _, s := range sources {
		for _, architecture := range architectures {
			p := binary{name: s.name, system: s.system, architecture: architecture}
			p.file = filepath.Join(r.out+".programs", s.system+"-"+architecture, s.name)
			fmt.Println("compiling", p.title())
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", r.linkerFlags, "-o", p.file, "./"+s.folder)
			cmd.Dir, cmd.Stderr = r.root, os.Stderr
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+s.system, "GOARCH="+architecture)
			if err := cmd.Run(); err != nil {
				return nil, fmt.Errorf("compile %s: %w", p.title(), err)
			}
			programs = append(programs, p)
		}
	}
	return programs, nil
}

// writeImages writes the images of the managers, of the agent and of kok-node-keys.
func (r release) writeImages(programs []binary) (oci.Digests, error) {
	byName := map[string]oci.Image{}
	for _, p := range programs {
		if p.name == balancer || p.name == tool || p.name == installer {
			continue
		}
		image, ok := byName[p.name]
		if !ok {
			image = oci.Image{Name: p.name, Programs: map[string]string{}, Created: r.made, Labels: map[string]string{
				"org.opencontainers.image.title":    p.name,
				"org.opencontainers.image.version":  r.version,
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.source":   "https://github.com/kube-on-kube/cluster-api-provider-kok",
			}}
		}
		image.Programs[p.architecture] = p.file
		byName[p.name] = image
	}
	images := make([]oci.Image, 0, len(byName))
	for _, image := range byName {
		images = append(images, image)
	}
	slices.SortFunc(images, func(a, b oci.Image) int { return cmp.Compare(a.Name, b.Name) })
	folder := filepath.Join(r.out, "images")
	digests, err := oci.Write(folder, r.version, architectures, images)
	if err != nil || r.key == nil {
		return digests, err
	}
	return digests, oci.Sign(folder, r.registry, r.version, digests, r.key.Sign)
}

// writeRepository writes a clusterctl repository that names the images by their digests, and a configuration with which
// clusterctl reads it wherever the release is: clusterctl fills in variables of the environment in its configuration.
func (r release) writeRepository(digests oci.Digests) error {
	all, err := providers(r.root, r.version, func(image string) string {
		return "${KOK_IMAGE_REGISTRY:=" + r.registry + "}/" + image + "@" + digests[image].String()
	})
	if err != nil {
		return err
	}
	if err := writeProviders(filepath.Join(r.out, "repository"), all); err != nil {
		return err
	}
	config := "# For clusterctl --config. KOK_RELEASE is the folder of this file, from the root.\n" + clusterctlProviders("${KOK_RELEASE}/repository", all)
	return writeFile(filepath.Join(r.out, "clusterctl.yaml"), []byte(config))
}

// writeInstaller writes the program that bootstrap data download, as it is.
func (r release) writeInstaller(programs []binary) error {
	for _, p := range programs {
		if p.name != installer {
			continue
		}
		content, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, p.title()), content, 0o755); err != nil {
			return err
		}
	}
	return nil
}
