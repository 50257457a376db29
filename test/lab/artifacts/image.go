package artifacts

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imagePath is the PATH of every image.
const imagePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Image describes a container image made of static programs: it has no shell, no users and no base image, and runs
// under any user ID.
type Image struct {
	// Name is the full reference, such as registry.k8s.io/etcd:3.6.16-0.
	Name string
	// Files are the programs, all executable.
	Files []File
	// User is the numeric user that runs unless a pod says otherwise; root when empty.
	User string
	// Entrypoint is what runs when a pod gives no command; the first file when empty.
	Entrypoint []string
	// Args are those of the entry point unless a pod gives others.
	Args []string
}

// Key changes when the image's content does, given that its files lie in folders that are named by their content.
func (i Image) Key() string {
	parts := []string{i.Name, i.User, strings.Join(i.Entrypoint, "\x00"), strings.Join(i.Args, "\x00")}
	for _, f := range i.Files {
		parts = append(parts, f.Path, f.Source)
	}
	return key(parts...)
}

// File is a program of an image.
type File struct {
	// Path is the absolute path in the image; Source the file on this machine.
	Path, Source string
}

// ProgramImage returns the image of programs, each in /usr/local/bin under its own file name; the first one is the
// entry point.
func ProgramImage(reference string, programs ...string) Image {
	i := Image{Name: reference}
	for _, p := range programs {
		i.Files = append(i.Files, File{Path: path.Join("/usr/local/bin", path.Base(p)), Source: p})
	}
	return i
}

// Write writes the image as an archive that `ctr images import` and `docker load` read.
func (i Image) Write(w io.Writer) error {
	ref, err := name.NewTag(i.Name, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("image name %q: %w", i.Name, err)
	}
	img, err := i.build()
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	if err := tarball.Write(ref, img, w); err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	return nil
}

// Push pushes the image to a registry that stands for the one of its name.
func (i Image) Push(to name.Registry, options ...remote.Option) error {
	ref, err := name.NewTag(i.Name, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("image name %q: %w", i.Name, err)
	}
	// A layer is asked for its digest first, and is not compressed twice.
	img, err := i.build(tarball.WithCompressedCaching)
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	return remote.Write(to.Repo(ref.RepositoryStr()).Tag(ref.TagStr()), img, options...)
}

// build composes the image. Layers are compressed fast: they never travel further than to a host of the same machine.
func (i Image) build(options ...tarball.LayerOption) (v1.Image, error) {
	if len(i.Files) == 0 {
		return nil, fmt.Errorf("no files given")
	}
	entrypoint := i.Entrypoint
	if len(entrypoint) == 0 {
		entrypoint = []string{i.Files[0].Path}
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	for _, f := range append([]File{{}}, i.Files...) {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return openLayer(f) },
			append([]tarball.LayerOption{tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithMediaType(types.OCILayer)}, options...)...)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS = "amd64", "linux"
	config.Config = v1.Config{User: i.User, Entrypoint: entrypoint, Cmd: i.Args, Env: []string{"PATH=" + imagePath}, WorkingDir: "/"}
	return mutate.ConfigFile(img, config)
}

// openLayer streams the tar archive of one file; of the folders that every image has when there is no file.
func openLayer(f File) (io.ReadCloser, error) {
	if f.Path == "" {
		return baseLayer()
	}
	source, err := os.Open(f.Source)
	if err != nil {
		return nil, err
	}
	info, err := source.Stat()
	if err != nil {
		return nil, err
	}
	var head, end bytes.Buffer
	w := tar.NewWriter(&head)
	for _, dir := range parents(f.Path) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.Path, "/"), Mode: 0o755, Size: info.Size()}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	// The file itself is not copied into memory: padding to a tar block and the two empty blocks that end an archive
	// follow it.
	const block = 512
	padding := (block - info.Size()%block) % block
	end.Write(make([]byte, padding+2*block))
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(&head, source, &end), source}, nil
}

func baseLayer() (io.ReadCloser, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	dirs := []tar.Header{{Name: "etc/", Mode: 0o755}, {Name: "tmp/", Mode: 0o1777}, {Name: "var/", Mode: 0o755}, {Name: "var/run/", Mode: 0o755}}
	slices.SortFunc(dirs, func(a, b tar.Header) int { return cmp.Compare(a.Name, b.Name) })
	for _, d := range dirs {
		d.Typeflag = tar.TypeDir
		if err := w.WriteHeader(&d); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return io.NopCloser(&b), nil
}

// parents lists the folders above a path, outermost first, without the leading slash.
func parents(file string) []string {
	var dirs []string
	for d := path.Dir(strings.TrimPrefix(file, "/")); d != "."; d = path.Dir(d) {
		dirs = append(dirs, d)
	}
	slices.Reverse(dirs)
	return dirs
}
