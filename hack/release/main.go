// Command release writes a local clusterctl repository: the components of Cluster API's core and
// kubeadm bootstrap providers and of the providers of this repository, the templates of Clusters, the table
// of Kubernetes versions, and a clusterctl.yaml that names them.
//
// clusterctl's layout of a local repository is described in "clusterctl Configuration File" and
// "Overrides Layer" of the Cluster API book.
//
//	release        a local repository, for images that are on the hosts already
//	release build  everything that is published: images, programs, packages, and a repository that names the images; signed, if there is a key
//	release push   the images, to a registry
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"github.com/kube-on-kube/cluster-api-provider-kok/config/monitoring"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/oci"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/release/signing"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/program"
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
	cmd.AddCommand(buildCommand(), pushCommand())
	program.Run("release", cmd, "")
}

func buildCommand() *cobra.Command {
	r, key := release{}, ""
	cmd := &cobra.Command{Use: "build", Short: "Write everything that is published", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&r.root, "root", ".", "top folder of this repository")
	cmd.Flags().StringVar(&r.out, "out", "out/release", "folder to write to")
	cmd.Flags().StringVar(&r.version, "version", "", "version of the release, such as v0.2.0")
	cmd.Flags().StringVar(&r.registry, "image-registry", "ghcr.io/kube-on-kube", "registry and path of the images, unless the user says otherwise")
	cmd.Flags().StringVar(&r.linkerFlags, "ldflags", "", "flags of Go's linker")
	cmd.Flags().StringVar(&r.packager, "packager", "bin/packages", "the program of hack/tools/packages")
	cmd.Flags().StringVar(&key, "signing-key", "", "private key of cosign that signs the release; the variable COSIGN_PASSWORD has its password")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if r.key, err = signingKey(key); err != nil {
			return err
		}
		if r.made, err = commitTime(cmd.Context(), r.root); err != nil {
			return err
		}
		return r.build(cmd.Context())
	}
	return cmd
}

// signingKey reads the key before anything is built. Without a file nothing is signed.
func signingKey(file string) (*signing.Key, error) {
	if file == "" {
		fmt.Println("nothing is signed: SIGNING_KEY names no key")
		return nil, nil
	}
	return signing.Read(file)
}

// commitTime is when the commit was made that is checked out.
func commitTime(ctx context.Context, root string) (time.Time, error) {
	cmd := exec.CommandContext(ctx, "git", "show", "--no-patch", "--format=%ct", "HEAD")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask git for the commit's time, which the release's files get: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(output)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

func pushCommand() *cobra.Command {
	var folder, registry, authorities string
	cmd := &cobra.Command{
		Use: "push", Args: cobra.NoArgs, Short: "Push the images of a release to a registry",
		Long: "Push the images of a release to a registry. Its password is taken from docker's configuration file (DOCKER_CONFIG), " +
			"which docker login, podman login and others write. A push that was interrupted goes on where it was.",
	}
	cmd.Flags().StringVar(&folder, "images", "out/release/images", "folder of the release's images")
	cmd.Flags().StringVar(&registry, "registry", "", "where they go, such as registry.example.com/kok")
	cmd.Flags().StringVar(&authorities, "ca-file", "", "certificate authorities of the registry, beside those of the system")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if registry == "" {
			return errors.New("say where the images go: make push REGISTRY=registry.example.com/kok")
		}
		transport, err := oci.Transport(authorities)
		if err != nil {
			return err
		}
		return oci.Push(cmd.Context(), folder, registry, transport, authn.DefaultKeychain, func(reference string) { fmt.Println(reference) })
	}
	return cmd
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
	all, err := providers(root, o.version, func(image string) string { return o.registry + "/" + image + ":" + o.tag })
	if err != nil {
		return err
	}
	repository := filepath.Join(out, "repository")
	if err := writeProviders(repository, all); err != nil {
		return err
	}
	file := filepath.Join(out, "clusterctl.yaml")
	config := "# For clusterctl --config. Written by make release-manifests.\n" + clusterctlProviders(repository, all)
	config += fmt.Sprintf("overridesFolder: %q\n", filepath.Join(out, "overrides"))
	if err := writeFile(file, []byte(config)); err != nil {
		return err
	}
	fmt.Println(file)
	return nil
}

// writeProviders writes all providers into a repository.
func writeProviders(repository string, all []provider) error {
	var errs []error
	for _, p := range all {
		if err := p.write(repository); err != nil {
			errs = append(errs, fmt.Errorf("write provider %s: %w", p.label, err))
		}
	}
	return errors.Join(errs...)
}

// providers are what a repository has: Cluster API's own in the version that this module is built with, and those of this
// repository in one version. reference says where an image of theirs is.
func providers(root, version string, reference func(image string) string) ([]provider, error) {
	core, err := findModule(root, "sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	return append([]provider{
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
	}, ownProviders(root, version, reference)...), nil
}

// ownProviders are those of this repository, in one version. reference says where an image of theirs is.
func ownProviders(root, version string, reference func(image string) string) []provider {
	return []provider{
		{
			name: "kok", kind: "ControlPlaneProvider", label: "control-plane-kok", version: version,
			kustomization: filepath.Join(root, "config", "controlplane", "default"),
			image:         reference("kok-controlplane-controller"),
			arguments:     map[string]string{"etcd-agent-image": reference(agent), "node-keys-image": reference(nodeKeys)},
			components:    "control-plane-components.yaml",
			metadata:      filepath.Join(root, "metadata.yaml"),
			files: []string{
				filepath.Join(root, "internal", "versions", "versions.yaml"),
				filepath.Join(root, "config", "monitoring", monitoring.RulesFile), filepath.Join(root, "config", "monitoring", monitoring.DashboardFile),
			},
			hostCluster: filepath.Join(root, "config", "host-cluster"),
		},
		{
			name: "kok", kind: "BootstrapProvider", label: "bootstrap-kok", version: version,
			kustomization: filepath.Join(root, "config", "bootstrap", "default"),
			image:         reference("kok-bootstrap-controller"),
			components:    "bootstrap-components.yaml",
			metadata:      filepath.Join(root, "metadata.yaml"),
		},
		{
			name: "idc", kind: "InfrastructureProvider", label: "infrastructure-idc", version: version,
			kustomization: filepath.Join(root, "config", "infrastructure", "default"),
			image:         reference("kok-infrastructure-controller"),
			components:    "infrastructure-components.yaml",
			metadata:      filepath.Join(root, "metadata.yaml"),
			templates:     filepath.Join(root, "templates"),
		},
	}
}
