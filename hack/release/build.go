package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rendering"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/oci"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
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
	// made is the time that all files of the release have: that of the commit, so that the same commit gives the same bytes.
	made time.Time
}

// architectures of Linux that the release is for, as Go names them.
var architectures = []string{"amd64", "arm64"}

// managers are the programs that run as images, by their folder.
var managers = map[string]string{
	"controlplane": "kok-controlplane-controller", "bootstrap": "kok-bootstrap-controller", "infrastructure": "kok-infrastructure-controller",
}

// balancer is the program that runs on workers and on machines of administrators, and its folder.
const (
	balancer       = "kok-apiserver-lb"
	balancerFolder = "bootstrap/apiserverlb/cmd/kok-apiserver-lb"
	balancerUnit   = "bootstrap/apiserverlb/unit/kok-apiserver-lb.service"
)

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

// write writes the release of programs. SHA256SUMS comes last: a folder that has it is complete.
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
	return writeSums(r.out)
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
	sources := []source{{balancerFolder, balancer, "linux"}, {balancerFolder, balancer, "darwin"}, {installerFolder, installer, "linux"}}
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

// writeImages writes the managers' images.
func (r release) writeImages(programs []binary) (oci.Digests, error) {
	byName := map[string]oci.Image{}
	for _, p := range programs {
		if p.name == balancer || p.name == installer {
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
	return oci.Write(filepath.Join(r.out, "images"), r.version, architectures, images)
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

// writeImageList writes images.txt: the images of all providers, and those of control planes and workers of each minor, in the
// version that the release is tested with.
func (r release) writeImageList(digests oci.Digests) error {
	all, err := providers(r.root, r.version, func(image string) string { return r.registry + "/" + image + "@" + digests[image].String() })
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Images that nodes pull. Another patch of Kubernetes has other tags of kube-*, and the same of all else.\n" +
		"# Not here: pause, which the nodes' containerd names, and cert-manager's, which clusterctl init list-images names.\n\n# Providers\n")
	for _, p := range all {
		b.WriteString(p.image + "\n")
	}
	for _, version := range append(artifacts.OlderVersions(), artifacts.DefaultVersions().Host) {
		images, err := rendering.Images(version, "", versions.BuiltIn())
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n# Kubernetes %s\n%s\n", version, strings.Join(images, "\n"))
	}
	return writeFile(filepath.Join(r.out, "images.txt"), []byte(b.String()))
}

// writeBalancer writes the load balancer as a file, as packages of Linux distributions, and in archives for machines of
// administrators.
func (r release) writeBalancer(ctx context.Context, programs []binary) error {
	for _, p := range programs {
		if p.name != balancer {
			continue
		}
		content, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		archive := filepath.Join(r.out, fmt.Sprintf("%s-%s-%s-%s.tar.gz", balancer, r.version, p.system, p.architecture))
		if err := r.writeArchive(archive, content); err != nil {
			return err
		}
		if p.system != "linux" {
			continue
		}
		if err := os.WriteFile(filepath.Join(r.out, p.title()), content, 0o755); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, r.packager, "--version="+r.version, "--architecture="+p.architecture, "--program="+p.file,
			"--unit="+filepath.Join(r.root, balancerUnit), "--time="+strconv.FormatInt(r.made.Unix(), 10), "--out="+r.out)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("make packages of %s: %w", p.title(), err)
		}
	}
	return nil
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

// writeArchive writes the load balancer with its unit and licence.
func (r release) writeArchive(file string, balancerProgram []byte) error {
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	w := tar.NewWriter(compressed)
	add := func(name string, mode int64, content []byte) error {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: r.made})
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}
	unit, unitErr := os.ReadFile(filepath.Join(r.root, balancerUnit))
	licence, licenceErr := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	err := errors.Join(unitErr, licenceErr)
	if err == nil {
		err = errors.Join(add(balancer, 0o755, balancerProgram), add(balancer+".service", 0o644, unit), add("LICENSE", 0o644, licence),
			w.Close(), compressed.Close())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// writeSums writes SHA256SUMS, which sha256sum --check reads, of every file in a folder.
func writeSums(folder string) error {
	var lines []string
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+relative+"\n")
		return nil
	})
	if err != nil {
		return fmt.Errorf("write SHA256SUMS: %w", err)
	}
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
