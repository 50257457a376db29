package artifacts

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Upstream is what the projects that a worker's software comes from publish. It is no part of a Set: hosts of the lab have
// that software, but for bare ones.
type Upstream struct {
	// Folder has the files, each at the path that it has on its project's server, below a folder named after the server.
	Folder string
	// Containerd, Runc and CNIPlugins are the versions that are there, with a leading v.
	Containerd, Runc, CNIPlugins string
}

// EnsureUpstream builds what is missing in the cache folder, with a kubelet of each Kubernetes version.
func EnsureUpstream(ctx context.Context, cacheDir string, kubernetes []string, progress func(string)) (*Upstream, error) {
	v := DefaultVersions()
	u := &Upstream{Containerd: v.Containerd, Runc: v.Runc, CNIPlugins: v.CNIPlugins}
	return u, inCache(ctx, cacheDir, progress, func(cache, goVersion string) error {
		if err := installPackages(ctx, slices.Values(runcPackages), progress); err != nil {
			return err
		}
		var files []publication
		for _, version := range kubernetes {
			folder, err := buildKubelet(ctx, cache, goVersion, version, progress)
			if err != nil {
				return err
			}
			files = append(files, kubeletPublication(version, folder))
		}
		for _, p := range []struct {
			recipe  recipe
			publish func(version, programs string) publication
		}{
			{containerdRecipe(v.Containerd), containerdPublication},
			{runcRecipe(v.Runc), runcPublication},
			{cniPluginsRecipe(v.CNIPlugins), cniPluginsPublication},
		} {
			folder, err := p.recipe.build(ctx, cache, goVersion, progress)
			if err != nil {
				return err
			}
			files = append(files, p.publish(p.recipe.version, folder))
		}
		var err error
		u.Folder, err = publishAll(cache, files)
		return err
	})
}

// runcPackages are what runc is linked with, and how it finds that.
var runcPackages = []string{"gcc", "libc6-dev", "libseccomp-dev", "pkgconf"}

// buildKubelet returns the folder of a Kubernetes version's programs, as a Set or EnsureKubernetes has them.
func buildKubelet(ctx context.Context, cache, goVersion, version string, progress func(string)) (string, error) {
	r, err := kubernetesRecipe(version, hostPrograms...)
	if err != nil {
		return "", err
	}
	return r.build(ctx, cache, goVersion, progress)
}

// publication is a file as its project publishes it, with the file of its digest.
type publication struct {
	// path has the project's server first.
	path string
	// sources are what it is made of: the file itself, or by their paths in the archive that it is.
	source  string
	archive []File
	// digest is the path of the digest's file; bare tells that it has the digest alone, and no name.
	digest string
	bare   bool
}

func kubeletPublication(version, programs string) publication {
	file := "dl.k8s.io/release/" + version + "/bin/linux/amd64/kubelet"
	return publication{path: file, source: filepath.Join(programs, "kubelet"), digest: file + ".sha256", bare: true}
}

func containerdPublication(version, programs string) publication {
	file := fmt.Sprintf("github.com/containerd/containerd/releases/download/%s/containerd-%s-linux-amd64.tar.gz", version, strings.TrimPrefix(version, "v"))
	p := publication{path: file, digest: file + ".sha256sum"}
	for _, name := range containerdPrograms {
		p.archive = append(p.archive, File{Path: "bin/" + name, Source: filepath.Join(programs, name)})
	}
	return p
}

func runcPublication(version, programs string) publication {
	folder := "github.com/opencontainers/runc/releases/download/" + version
	return publication{path: folder + "/runc.amd64", source: filepath.Join(programs, "runc"), digest: folder + "/runc.sha256sum"}
}

func cniPluginsPublication(version, programs string) publication {
	file := fmt.Sprintf("github.com/containernetworking/plugins/releases/download/%[1]s/cni-plugins-linux-amd64-%[1]s.tgz", version)
	p := publication{path: file, digest: file + ".sha256"}
	for _, plugin := range cniPlugins {
		name := path.Base(plugin)
		p.archive = append(p.archive, File{Path: "./" + name, Source: filepath.Join(programs, name)})
	}
	return p
}

// publishAll lays files into a folder of the cache, unless it is there.
func publishAll(cache string, files []publication) (string, error) {
	var parts []string
	for _, p := range files {
		parts = append(parts, p.path, p.source, p.digest)
		for _, f := range p.archive {
			parts = append(parts, f.Path, f.Source)
		}
	}
	folder := filepath.Join(cache, "upstream", key(parts...))
	if exists(folder) {
		return folder, nil
	}
	err := publish(folder, func(tmp string) error {
		for _, p := range files {
			if err := p.write(tmp); err != nil {
				return fmt.Errorf("publish %s: %w", p.path, err)
			}
		}
		return nil
	})
	return folder, err
}

// write writes the file and the one of its digest below a folder.
func (p publication) write(folder string) error {
	file := filepath.Join(folder, p.path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if p.source != "" {
		if err := os.Link(p.source, file); err != nil {
			return err
		}
	} else if err := writeArchive(file, p.archive); err != nil {
		return err
	}
	sum, err := FileDigest(file)
	if err != nil {
		return err
	}
	if !p.bare {
		sum += "  " + path.Base(p.path) + "\n"
	}
	return os.WriteFile(filepath.Join(folder, p.digest), []byte(sum), 0o644)
}

// writeArchive packs programs; the same programs give the same bytes.
func writeArchive(to string, files []File) (err error) {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	// What is read once on the same machine is not worth a processor's time.
	zipped, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		if err := addProgram(archive, f); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

func addProgram(archive *tar.Writer, f File) error {
	source, err := os.Open(f.Source)
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // only read
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(archive, source)
	return err
}

// FileDigest is the SHA-256 of a file, in hexadecimal.
func FileDigest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}
