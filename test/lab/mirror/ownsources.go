package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
)

// Command is what the program lab calls the command that serves.
const Command = "mirror"

// AddFlags are those of the command that serves; arguments gives them.
func (o *Own) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Kubernetes, "kubernetes", []string{artifacts.DefaultVersions().Host}, "versions of kubelet and kube-proxy")
	flags.StringVar(&o.Programs, "programs", "bin", "folder with kok-software and kok-apiserver-lb, which make builds")
	flags.StringVar(&o.ReleaseVersion, "release", "v0.1.0", "version of the release that has them")
	flags.StringToStringVar(&o.ProgramImages, "image", nil, "static programs that are images too, as name=program")
	flags.BoolVar(&o.WithoutPackages, "without-packages", false, "no repository of apt")
}

func (o Own) arguments() []string {
	arguments := []string{
		Command, "--kubernetes=" + strings.Join(o.Kubernetes, ","), "--programs=" + o.Programs, "--release=" + o.ReleaseVersion,
		fmt.Sprintf("--without-packages=%t", o.WithoutPackages),
	}
	for _, name := range slices.Sorted(maps.Keys(o.ProgramImages)) {
		arguments = append(arguments, "--image="+name+"="+o.ProgramImages[name])
	}
	return arguments
}

// addImages adds those of the lab's workers, and those of programs.
func (o *Own) addImages(ctx context.Context, l *lab.Lab, progress func(string)) error {
	set, err := l.Artifacts(ctx, progress)
	if err != nil {
		return err
	}
	o.Images = ofVersions(set.WorkerImages, o.Kubernetes)
	for _, name := range slices.Sorted(maps.Keys(o.ProgramImages)) {
		o.Images = append(o.Images, artifacts.ProgramImage(name, o.ProgramImages[name]))
	}
	return nil
}

// ofVersions are images without kube-proxy of other versions.
func ofVersions(images []artifacts.Image, versions []string) []artifacts.Image {
	return slices.DeleteFunc(slices.Clone(images), func(image artifacts.Image) bool {
		version, proxy := strings.CutPrefix(image.Name, "registry.k8s.io/kube-proxy:")
		return proxy && !slices.Contains(versions, version)
	})
}

// key is another one when a mirror has something else. Images of the lab and upstream's programs are known by their names;
// the programs of this project are built again and again, and are known by their content.
func (o Own) key() (string, error) {
	files := []string{filepath.Join(o.Programs, installer), filepath.Join(o.Programs, balancer)}
	files = append(files, slices.Sorted(maps.Values(o.ProgramImages))...)
	parts := o.arguments()
	for _, file := range files {
		digest, err := artifacts.FileDigest(file)
		if err != nil {
			return "", err
		}
		parts = append(parts, digest)
	}
	for _, image := range o.Images {
		parts = append(parts, image.Key())
	}
	text, err := json.Marshal(parts)
	return fmt.Sprintf("%x", sha256.Sum256(text)), err
}
